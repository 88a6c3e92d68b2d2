"""Reads the outlined dispatches of a module at phase `flow`, with the toolchain's Python bindings."""

import _reading as reading
from iree.compiler import ir


class Dispatch:
    """A `flow.dispatch` with its operands in groups."""

    def __init__(self, operation):
        self.operation = operation
        found = reading.names(operation.location, "df.site.")
        self.number = found[0] if found else None
        # that of `models.site.Site.dispatch`; None without a tag
        entry = ir.ArrayAttr(operation.attributes["entry_points"])[0]
        self.executable, self.export = ir.SymbolRefAttr(entry).value
        groups, values = (
            list(ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"])),
            list(operation.operands),
        )
        workload, arguments, argument_dims, _ = groups
        self.workload = values[:workload]
        self.arguments = values[workload : workload + arguments]
        dims = values[workload + arguments :]
        self.argument_dims = _shares(self.arguments, dims[:argument_dims])
        # the dynamic sizes of each argument
        self.results = list(operation.results)
        self.result_dims = _shares(self.results, dims[argument_dims:])
        tied = (
            [ir.IntegerAttr(each).value for each in operation.attributes["tied_operands"]]
            if ("tied_operands" in operation.attributes)
            else [-1] * len(self.results)
        )
        self.tied = [None if each < 0 else each - workload for each in tied]
        # for each result, the argument whose buffer it overwrites; None if it has its own


def _shares(values, dims):
    """Return for each value its own part of the dynamic sizes, which stand one after the other."""
    shares, left = [], list(dims)
    for value in values:
        count = str(value.type).split(",")[0].count("?")
        shares.append(left[:count])
        left = left[count:]
    return shares


def dispatches(module):
    """Return all dispatches of a module in the order of the text, those of initializers too."""
    return [Dispatch(each) for each in reading.walk(module.operation) if each.name == "flow.dispatch"]
