"""Read the `flow.dispatch` operations of a module that has been through the compiler's phase `flow`.

The import of this Python module needs the Python bindings of an IREE toolchain."""

import _reading as reading
from iree.compiler import ir


class Dispatch:
    """A `flow.dispatch`, with its operands split into workload, arguments and dynamic sizes."""

    def __init__(self, operation):
        self.operation = operation
        found = reading.names(operation.location, "df.site.")
        # N of the tag `df.site.N`, as in `models.site.Site.dispatch`; None without a tag
        self.number = found[0] if found else None
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
        # for each argument, a list of the SSA values of its dynamic sizes
        self.argument_dims = _shares(self.arguments, dims[:argument_dims])
        self.results = list(operation.results)
        self.result_dims = _shares(self.results, dims[argument_dims:])
        tied = (
            [ir.IntegerAttr(each).value for each in operation.attributes["tied_operands"]]
            if ("tied_operands" in operation.attributes)
            else [-1] * len(self.results)
        )
        # for each result, the index of the argument whose buffer it overwrites; None if it has its own buffer
        self.tied = [None if each < 0 else each - workload for each in tied]


def _shares(values, dims):
    shares, left = [], list(dims)
    for value in values:
        count = str(value.type).split(",")[0].count("?")
        shares.append(left[:count])
        left = left[count:]
    return shares


def dispatches(module):
    """Return all dispatches of a module in the order of its text, including those in initializers."""
    return [Dispatch(each) for each in reading.walk(module.operation) if each.name == "flow.dispatch"]
