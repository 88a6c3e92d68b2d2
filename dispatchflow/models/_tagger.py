"""Tag the operations and dispatches of a module, and find the tags again after a compile.

A tag is a name that this script writes into an MLIR location. If the compiler replaces an operation, the new
operations get the location and the tag of the old operation. The script runs as a process of its own. It imports only
neighboring scripts, a toolchain's Python bindings and the standard library. Each command writes JSON of a type that
`models/tagged.py` defines. The commands are:
- `tag` sets the location of operation N of the source module to `df.op.N`.
- `sites` sets the location of dispatch N to `df.site.N`, before the compiler merges equal dispatches.
- `launches` finds the operations of the host program that launch dispatches, and reads both kinds of tags from them."""

import argparse
import os
import sys

_SYMBOL = "sym_name"
_DISPATCH = "flow.dispatch.workgroups"
_ARITHMETIC = ("arith.", "math.", "complex.")


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["tag", "sites", "launches"])
    parser.add_argument("--bindings", required=True, help="where Python finds iree.compiler")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", help="the tagged module")
    parser.add_argument("--facts", required=True)
    parser.add_argument("--labels", help="the same module with the source's locations")
    parser.add_argument("--title", default="", help="what the file of the labels is called")
    return parser.parse_args()


def _parsed(path):
    context = ir.Context()
    context.allow_unregistered_dialects = True
    return ir.Module.parseFile(path, context)


# A module as a graph


def _kind(operation):
    """Return the MLIR name of an operation; for an ONNX node, return its operator, such as `onnx.Conv`."""
    if operation.name == "torch.operator" and "name" in operation.attributes:
        return operation.attributes["name"].value
    return operation.name


def _is_tensor(type_):
    text = str(type_)
    return text.startswith(("tensor<", "!torch.vtensor", "!torch.tensor"))


def _text(operation, name):
    return ir.StringAttr(operation.attributes[name]).value if name in operation.attributes else None


def _nodes(module):
    """Return a list of nodes, and a dict from each operation to the index of its node.

    A node is a dict that describes one operation; it has the fields of `tagged.Node`. Operations inside dispatches have
    no nodes."""
    nodes, numbers, made, arguments = [], {}, {}, {}
    for operation in reading.walk(module.operation, lambda each: each.name != _DISPATCH):
        number = numbers[operation] = len(nodes)
        parent = operation.parent
        for result in operation.results:
            made[result] = number
        if operation.name != _DISPATCH:
            for region in operation.regions:
                for block in region.blocks:
                    for i, argument in enumerate(block.arguments):
                        arguments[argument] = (number, i)
        nodes.append(
            {
                "kind": _kind(operation),
                "parent": None if parent is None else numbers[parent.operation],
                "symbol": _text(operation, _SYMBOL),
                "tensor": any(_is_tensor(value.type) for value in (*operation.results, *operation.operands)),
                "results": len(operation.results),
            }
        )
    for operation, number in numbers.items():
        uses, taken = {}, {}
        for value in operation.operands:
            if value in made:
                uses[made[value]] = None
            elif value in arguments:
                taken[arguments[value]] = None
        nodes[number] |= {"uses": list(uses), "arguments": list(taken)}
    return nodes, numbers


# The commands


def tag(options):
    module = _parsed(options.input)
    nodes, numbers = _nodes(module)
    unlabelled = None
    labels = [reading.label(each.location, options.input, options.title) for each in numbers]
    if options.labels:
        try:
            path = options.labels
            found = [(_kind(each), each.location) for each in reading.walk(_parsed(path).operation)]
            if [kind for kind, _ in found] == [node["kind"] for node in nodes]:
                labels = [reading.label(location, path, options.title) for _, location in found]
            else:
                unlabelled = "the file's operations are not those of the printed module, in the same order"
        except ir.MLIRError as error:
            unlabelled = f"the file cannot be read with its locations: {str(error).splitlines()[0]}"
        if unlabelled:
            labels = [(None, None)] * len(nodes)
    for node, (name, place) in zip(nodes, labels):
        node |= {"name": name, "place": place}
    # The compiler names linked executables after an unnamed module's file, which is stdin in the case's own compile.
    whole = module.operation.location
    if isinstance(whole, ir.FileLineColLoc) and whole.filename == options.input:
        whole = ir.Location.file("<stdin>", 1, 1, context=module.context)
    for operation, number in numbers.items():
        operation.location = ir.Location.name(f"df.op.{number}", context=module.context)
    module.operation.location = whole
    _write(options, module)
    return {"nodes": nodes, "unlabelled": unlabelled}


def sites(options):
    module = _parsed(options.input)
    nodes, numbers = _nodes(module)
    dispatches = []
    for operation, number in numbers.items():
        if operation.name != _DISPATCH:
            continue
        body = [_computation(each) for each in reading.walk(operation, _is_entered) if each != operation]
        dispatches.append(
            {
                "node": number,
                "operations": [each for each in body if each],
                "operands": [str(value.type) for value in operation.operands],
                "results": [str(value.type) for value in operation.results],
            }
        )
        location = ir.Location.name(f"df.site.{len(dispatches) - 1}", operation.location, context=module.context)
        operation.location = location
    _write(options, module)
    return {"nodes": nodes, "dispatches": dispatches}


def _is_entered(operation):
    # `_computation` describes the operations in a linalg body, as scalars of the linalg operation.
    return not operation.name.startswith("linalg.")


def _computation(operation):
    """Return a dict that describes an operation in a dispatch; it has the fields of `tagged.Computation`."""
    scalars = [each for each in reading.walk(operation) if each != operation] if not _is_entered(operation) else []
    return {
        "kind": operation.name,
        "origins": reading.names(operation.location, "df.op."),
        "types": [str(value.type) for value in operation.operands],
        "maps": _maps(operation),
        "tensor": any(_is_tensor(value.type) for value in operation.results),
        "scalars": [
            {"kind": each.name, "origins": reading.names(each.location, "df.op.")}
            for each in scalars
            if each.name != "linalg.yield"
        ],
    }


def _maps(operation):
    if _is_entered(operation):
        return []
    for name in ("indexing_maps", "linalg.memoized_indexing_maps"):
        if name in operation.attributes:
            return [str(each.value) for each in operation.attributes[name]]
    return []


def launches(options):
    module = _parsed(options.input)
    everything = list(reading.walk(module.operation))
    found, buffers, commands, creations = [], {}, {}, []
    for operation in everything:
        if operation.name == "hal.command_buffer.create":
            buffers[operation.results[0]] = len(creations)
            creations.append(operation)
        if operation.name != "hal.command_buffer.dispatch":
            continue
        buffer = buffers.get(operation.operands[0], len(creations) - 1)
        path = _symbol(operation)
        found.append(
            {
                "sites": reading.names(operation.location, "df.site."),
                "origins": reading.names(operation.location, "df.op."),
                "function": _top(operation),
                "executable": path[0],
                "export": path[-1],
                "command_buffer": buffer,
                "command": commands.setdefault(buffer, 0),
            }
        )
        commands[buffer] += 1
    places = _places(module)
    for each in found:
        each["function"], each["at_load"] = places[each["function"]]
    return {"launches": found, "calls": reading.calls(module)}


def _symbol(operation):
    """Return the symbols [executable, variant, export] of the kernel that `operation` launches.

    The symbols are in an attribute of `operation`, or of an operation that its operands depend on. If there is no such
    attribute, the result is ["?"]."""
    seen, queue = set(), [operation]
    while queue:
        each = queue.pop(0)
        for name in each.attributes:
            attribute = each.attributes[getattr(name, "name", name)]
            if isinstance(attribute, ir.SymbolRefAttr) and len(attribute.value) > 1:
                return list(attribute.value)
        for value in each.operands:
            if not isinstance(value.owner, ir.Block) and value.owner.operation not in seen:
                seen.add(value.owner.operation)
                queue.append(value.owner.operation)
    return ["?"]


def _top(operation):
    while operation.parent.operation.name != "builtin.module":
        operation = operation.parent.operation
    return operation


def _places(module):
    """Return a dict from each top-level operation to the launcher of the dispatches in it.

    For example, the launcher `("main", False)` is the function `main`, and `("a", True)` is the initializer of the
    global `a`."""
    tops = list(reading.children(module.operation))
    loads, initial = {}, {}
    for top in tops:
        for each in reading.walk(top):
            if each.name == "util.global.load" and "global" in each.attributes:
                loads.setdefault(_flat(each.attributes["global"]), []).append(top)
    for top in (each for each in tops if each.name == "util.initializer"):
        inside = list(reading.walk(top))
        stored = [_flat(each.attributes["global"]) for each in inside if each.name == "util.global.store"]
        for each in inside:
            if each.name == "util.call":
                initial[_flat(each.attributes["callee"])] = (top, stored)
    places = {}
    for top in tops:
        launcher, symbol = top, _text(top, _SYMBOL)
        # `top` only records a command buffer, which an initializer stores in a global. The launcher is the first
        # top-level operation that loads a global of the initializer.
        if symbol in initial and any("hal.command_buffer" in str(type_) for type_ in _returned(top)):
            users = [user for name in initial[symbol][1] for user in loads.get(name, ())]
            launcher = next(iter(users), top)
        at_load = launcher.name == "util.initializer"
        places[top] = (_initialized(launcher) if at_load else _text(launcher, _SYMBOL) or "", at_load)
    return places


def _returned(function):
    return [value.type for each in reading.walk(function) if each.name == "util.return" for value in each.operands]


def _initialized(initializer):
    stores = (each for each in reading.walk(initializer) if each.name == "util.global.store")
    return ", ".join(dict.fromkeys(_flat(each.attributes["global"]) for each in stores))


def _flat(attribute):
    return ir.FlatSymbolRefAttr(attribute).value


def _write(options, module):
    with open(options.output, "wb") as file:
        module.operation.write_bytecode(file)


if __name__ == "__main__":
    given = _arguments()
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import _script

    with _script.bindings(given.bindings):
        import _reading as reading
        from iree.compiler import ir

    _script.end(given.facts, {"tag": tag, "sites": sites, "launches": launches}[given.command](given))
