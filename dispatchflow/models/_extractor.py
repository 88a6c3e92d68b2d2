"""Write each dispatch of a program as a separate MLIR module (docs/sites-alone.md).

Equal dispatches are written only once."""

# Import only neighboring scripts, a toolchain's Python bindings and the standard library.
import argparse
import os
import sys

_FUNCTION = "main"
_TUNED = ("compilation_info", "lowering_config")


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bindings", required=True, help="where Python finds iree.compiler")
    parser.add_argument("--input", required=True)
    parser.add_argument("--facts", required=True)
    return parser.parse_args()


def extract(options):
    context = ir.Context()
    context.allow_unregistered_dialects = True
    # The input is the program after the compiler's phase `flow`.
    module = ir.Module.parseFile(options.input, context)
    executables = {
        ir.StringAttr(each.attributes["sym_name"]).value: each
        for each in reading.children(module.operation)
        if "sym_name" in each.attributes
    }
    numbers, modules, found = {}, [], {}
    with context, ir.Location.unknown():
        for each in outlined.dispatches(module):
            if each.number is None:
                continue
            alone, facts = _alone(each)
            # The module has only its function yet. The function's text is enough to tell modules apart, because all
            # dispatches are from one program, in which a symbol names one executable.
            key = alone.operation.get_asm()
            if key not in numbers:
                numbers[key] = len(modules)
                # The executable is added afterwards, because the passes that `_bind` runs would change it.
                _bind(alone)
                with ir.InsertionPoint.at_block_begin(alone.body):
                    executables[each.executable].clone()
                modules.append(facts)
                _write(alone, f"{numbers[key]}.mlir")
                if _without_configurations(alone):
                    _write(alone, f"{numbers[key]}.plain.mlir")
            found[each.number] = numbers[key]
    return {"modules": modules, "dispatches": found}


def _alone(dispatch):
    """Return a new module whose function launches only this dispatch, and a description of the module.

    The description has the fields of a `models.extraction.Extract`, as a dict. The module does not yet contain the
    executable that the dispatch launches."""
    operation = dispatch.operation
    constants, arguments = [], {}
    for value in operation.operands:
        owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if owner is not None and owner.name == "arith.constant" and not str(value.type).startswith("tensor<"):
            constants.append(value)
        else:
            arguments.setdefault(value, len(arguments))
    module = ir.Module.create()
    results = [value.type for value in operation.results]
    with ir.InsertionPoint(module.body):
        type_ = ir.FunctionType.get([value.type for value in arguments], results)
        attributes = {"sym_name": ir.StringAttr.get(_FUNCTION), "function_type": ir.TypeAttr.get(type_)}
        function = ir.Operation.create("util.func", attributes=attributes, regions=1)
    block = function.regions[0].blocks.append(*type_.inputs)
    with ir.InsertionPoint(block):
        values = {value: block.arguments[i] for value, i in arguments.items()}
        for value in constants:
            if value not in values:
                values[value] = value.owner.operation.clone().results[0]
        launch = operation.clone().operation
        for i, value in enumerate(list(operation.operands)):
            launch.operands[i] = values[value]
        # In a program with several devices, the attribute names the dispatch's device. The new module has one device,
        # and no such symbol.
        if "stream.affinity" in launch.attributes:
            del launch.attributes["stream.affinity"]
        ir.Operation.create("util.return", operands=list(launch.results))
    facts = {
        "executable": dispatch.executable,
        "export": dispatch.export,
        "arguments": [{"type": str(value.type), **_origin(dispatch, value)} for value in arguments],
        "results": [str(type_) for type_ in results],
    }
    return module, facts


def _origin(dispatch, value):
    """Return the role of `value` in a dispatch: an operand, a dynamic size, or a number in the workload.

    The result has fields of `models.extraction.Argument`. For example, `{"value": "out0", "dim": 1}` is the size of
    dimension 1 of the first result."""
    if value in dispatch.arguments:
        return {"value": f"in{dispatch.arguments.index(value)}"}
    sized = [(f"in{i}", *each) for i, each in enumerate(zip(dispatch.arguments, dispatch.argument_dims))]
    sized += [(f"out{i}", *each) for i, each in enumerate(zip(dispatch.results, dispatch.result_dims))]
    for name, tensor, sizes in sized:
        if value in sizes:
            dynamic = [i for i, size in enumerate(_sizes(tensor.type)) if size == "?"]
            return {"value": name, "dim": dynamic[sizes.index(value)]}
    return {"value": f"workload{dispatch.workload.index(value)}"}


def _sizes(type_):
    return str(type_).removeprefix("tensor<").split(",")[0].split("x")


def _bind(module):
    """Make the module's function take and return buffers in place of tensors, as IREE's phase `abi` does."""
    passes = passmanager.PassManager.parse("builtin.module(iree-abi-transformation-pipeline)")
    passes.enable_verifier(False)  # it would report the missing executable
    passes.run(module.operation)


def _without_configurations(module):
    """Remove all lowering configurations from a module. Return whether the module had any.

    The configurations come from the case's tuning, or from the user's module."""
    found = [(each, name) for each in reading.walk(module.operation) for name in _TUNED if name in each.attributes]
    for operation, name in found:
        del operation.attributes[name]
    return bool(found)


def _write(module, name):
    # The module is printed in global scope: the local scope leaves out the blobs of dense_resource constants.
    module.operation.verify()
    with open(name, "w", encoding="utf-8") as file:
        file.write(module.operation.get_asm())
        file.write("\n")


if __name__ == "__main__":
    given = _arguments()
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import _script

    with _script.bindings(given.bindings):
        import _dispatches as outlined
        import _reading as reading
        from iree.compiler import ir, passmanager

    _script.end(given.facts, extract(given))
