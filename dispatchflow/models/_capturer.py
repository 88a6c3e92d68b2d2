"""Change a module so that it also returns the operands and results of its dispatches.

The input is a module after the compiler's phase `flow`. The new function `df_capture` returns the results of the
original function and the captured values. The option `--facts` is the path of a JSON file of type
`models.captured.Capturing`, to which the script writes facts about the captured values. The script imports only
neighboring scripts, a toolchain's Python bindings and the standard library."""

import argparse
import os
import sys

FUNCTION = "df_capture"
"""The name of the function that this script adds to the module.

The function calls the original function, and returns its results and the captured values."""

_VIEW = "!hal.buffer_view"
_WIDE = ("i64", "f64", "index")


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bindings", required=True, help="where Python finds iree.compiler")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--facts", required=True)
    parser.add_argument("--function", required=True, help="the function to call")
    parser.add_argument("--dispatches", required=True, help="the numbers of the dispatches: 0,4")
    parser.add_argument("--execution", type=int, help="which execution of each dispatch, from 1; the last one")
    parser.add_argument("--fill", type=int, default=0, help="the number that undefined elements are: 0 or 1")
    return parser.parse_args()


def _i64():
    return ir.IntegerType.get_signless(64)


def _create(name, operands=(), results=(), **attributes):
    made = ir.Operation.create(name, results=list(results), operands=list(operands), attributes=attributes)
    return made.results[0] if results else None


def _constant(type_, value):
    kind = ir.FloatAttr if _is_float(type_) else ir.IntegerAttr
    return _create("arith.constant", results=[type_], value=kind.get(type_, value))


def _is_float(type_):
    return str(type_).startswith(("f", "bf", "tf"))


def _start(number):
    """Return the initial value of the i64 slot with this number: 3 -> `3 << 32`.

    A slot is a global that holds a captured value or counts executions. All i64 slots start with different values."""
    return number << 32


class Capturer:
    """Changes a module so that it stores operands and results of its dispatches in new globals (slots)."""

    def __init__(self, module, execution):
        self.module, self.execution = module, execution
        # (name, type) of each added global, in the order in which the new function returns them
        self.slots = []
        self.top = module.body.operations[0]

    def slot(self, type_):
        """Add a mutable global of the MLIR type `type_`; return the index of the global in `slots`."""
        number = len(self.slots)
        name = f"{FUNCTION}_{number}"
        # IREE 3.13 merges globals with equal initial values, although different values are stored in them.
        start = f" = {_start(number)}" if type_ == "i64" else ""
        made = ir.Operation.parse(f"util.global private mutable @{name}{start} : {type_}")
        ir.InsertionPoint(self.top).insert(made)
        self.slots.append((name, type_))
        return number

    def store(self, value, number):
        symbol = ir.FlatSymbolRefAttr.get(self.slots[number][0])
        _create("util.global.store", [value], **{"global": symbol})

    def dispatch(self, found):
        """Add operations that store the operands and results of the dispatch `found` in new globals.

        Returns the fields of a `models.captured.Dispatch`, as a dict."""
        counter = self.slot("i64")
        with ir.InsertionPoint(found.operation):
            symbol = ir.FlatSymbolRefAttr.get(self.slots[counter][0])
            before = _create("util.global.load", results=[_i64()], **{"global": symbol})
            count = _create("arith.addi", [before, _constant(_i64(), 1)], [_i64()])
            self.store(count, counter)
            chosen = None
            if self.execution is not None:
                equal = ir.IntegerAttr.get(_i64(), 0)
                wanted = _constant(_i64(), _start(counter) + self.execution)
                chosen = _create("arith.cmpi", [count, wanted], [ir.IntegerType.get_signless(1)], predicate=equal)
        operands = list(zip(found.arguments, found.argument_dims))
        results = list(zip(found.results, found.result_dims))
        # The copies are at the end of the block. In IREE 3.13, a dispatch may overwrite a value before a copy beside
        # the dispatch reads it, but it does not overwrite a value that is used later.
        with ir.InsertionPoint.at_block_terminator(found.operation.block), self.guarded(chosen):
            values = [self.value(f"in{i}", *each) for i, each in enumerate(operands)]
            values += [self.value(f"out{i}", *each) for i, each in enumerate(results)]
        return {"dispatch": found.number, "executions": counter, "values": values}

    def guarded(self, chosen):
        """Return an insertion point in a new `scf.if` whose condition is `chosen`.

        If `chosen` is None, return the current insertion point."""
        if chosen is None:
            return ir.InsertionPoint.current
        made = ir.Operation.create("scf.if", operands=[chosen], regions=2)
        block = made.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            end = ir.Operation.create("scf.yield")
        return ir.InsertionPoint(end)

    def value(self, name, value, dims):
        """Add operations that store an operand or result of a dispatch in a new global (slot).

        `name` is, for example, `in0` for the first operand and `out0` for the first result. `dims` are the dynamic
        sizes of `value`. Returns the fields of a `models.captured.Value`, as a dict."""
        facts = {"value": name, "type": str(value.type), "slot": None, "dims": [], "why": None}
        if isinstance(value.type, ir.RankedTensorType):
            return facts | self.tensor(value, dims)
        number = self.number(value)
        return facts | ({"why": f"its type {value.type} is not captured"} if number is None else {"slot": number})

    def tensor(self, value, dims):
        type_ = value.type
        if type_.encoding is not None:
            return {"why": "its elements are encoded for another layout in memory"}
        sizes = [self.number(dim) for dim in dims]
        copy = _create("flow.tensor.clone", [value, *dims], [type_])
        # Without a barrier, in-place dispatches overwrite the copy, and even the program's results are wrong.
        kept = _create("util.optimization_barrier", [copy], [type_])
        encoding = ir.TypeAttr.get(type_)
        view = _create("hal.tensor.export", [kept, *dims], [ir.Type.parse(_VIEW)], source_encoding=encoding)
        slot = self.slot(_VIEW)
        self.store(view, slot)
        return {"slot": slot, "dims": sizes}

    def number(self, value):
        """Add operations that store a scalar's bits in a new i64 global; return the global's index in `slots`.

        If the scalar is not an integer, index, f32 or f64, nothing is added, and the result is None."""
        type_, bits = str(value.type), value
        if type_ in ("f32", "f64"):
            bits = _create("arith.bitcast", [value], [ir.IntegerType.get_signless(int(type_[1:]))])
        elif type_ == "index":
            bits = _create("arith.index_cast", [value], [_i64()])
        elif not isinstance(value.type, ir.IntegerType):
            return None
        if type_ not in _WIDE:
            bits = _create("arith.extui", [bits], [_i64()])
        number = self.slot("i64")
        self.store(bits, number)
        return number

    def wrap(self, function, counters):
        """Add the function `df_capture`; return the types of `function`'s results, as text.

        `counters` are the indices of the slots that count how often a dispatch is executed."""
        type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        kinds = [ir.Type.parse(kind) for _, kind in self.slots]
        attributes = {
            "sym_name": ir.StringAttr.get(FUNCTION),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(type_.inputs, [*type_.results, *kinds])),
            "iree.abi.stub": ir.UnitAttr.get(),
        }
        with ir.InsertionPoint(self.module.body):
            made = ir.Operation.create("util.func", attributes=attributes, regions=1)
        block = made.regions[0].blocks.append(*type_.inputs)
        with ir.InsertionPoint(block):
            callee = ir.FlatSymbolRefAttr.get(ir.StringAttr(function.attributes["sym_name"]).value)
            called = {"callee": callee}
            call = ir.Operation.create("util.call", type_.results, list(block.arguments), called)
            values = list(call.results)
            for number, ((name, _), kind) in enumerate(zip(self.slots, kinds)):
                value = _create("util.global.load", results=[kind], **{"global": ir.FlatSymbolRefAttr.get(name)})
                if number in counters:
                    value = _create("arith.subi", [value, _constant(_i64(), _start(number))], [_i64()])
                values.append(value)
            _create("util.return", values)
        return [str(each) for each in type_.results]


def _filled(module, number):
    """Replace undefined float and integer tensors by splats of `number`; return how many were replaced.

    An undefined tensor is the result of a `flow.tensor.empty`."""
    found = [each for each in reading.walk(module.operation) if each.name == "flow.tensor.empty"]
    filled = 0
    for operation in found:
        type_ = operation.results[0].type
        element = type_.element_type
        if not (_is_float(element) or isinstance(element, ir.IntegerType)):
            continue
        with ir.InsertionPoint(operation):
            made = _create("flow.tensor.splat", [_constant(element, number), *operation.operands], [type_])
        operation.results[0].replace_all_uses_with(made)
        operation.erase()
        filled += 1
    return filled


def _functions(module):
    return [each for each in reading.children(module.operation) if each.name == "util.func"]


def capture(options):
    module = ir.Module.parseFile(options.input, ir.Context())
    wanted = [int(number) for number in options.dispatches.split(",") if number]
    with module.context, ir.Location.unknown():
        undefined = _filled(module, options.fill)
        capturer = Capturer(module, options.execution)
        found = [each for each in dispatches.dispatches(module) if each.number in wanted]
        facts = [capturer.dispatch(each) for each in found]
        functions = {ir.StringAttr(each.attributes["sym_name"]).value: each for each in _functions(module)}
        for each in functions.values():
            if each.regions[0].blocks:
                # If the function were inlined, a dispatch in its loop would be captured before the loop runs.
                each.attributes["inlining_policy"] = ir.Attribute.parse("#util.inline.never")
        results = capturer.wrap(functions[options.function], {each["executions"] for each in facts})
        module.operation.verify()
        with open(options.output, "wb") as file:
            module.operation.write_bytecode(file)
    slots = [kind for _, kind in capturer.slots]
    return {"results": results, "slots": slots, "dispatches": facts, "undefined": undefined}


if __name__ == "__main__":
    given = _arguments()
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import _script

    with _script.bindings(given.bindings):
        import _dispatches as dispatches
        import _reading as reading
        from iree.compiler import ir

    _script.end(given.facts, capture(given))
