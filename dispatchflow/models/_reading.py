"""Walk the operations of a module and read their locations, for the scripts in this folder."""

from iree.compiler import ir


def children(operation):
    for region in operation.regions:
        for block in region.blocks:
            for child in block.operations:
                yield child.operation


def walk(operation, inside=lambda operation: True):
    """Yield an operation and the operations nested in it, in the order of the text.

    `inside` is called with each operation. If it returns False, the operations nested in that operation are left out.
    """
    yield operation
    if inside(operation):
        for child in children(operation):
            yield from walk(child, inside)


def names(location, prefix):
    """Return the numbers that follow `prefix` in the names of a location, each number once.

    For example, the name `df.op.7` gives 7 for the prefix `df.op.`. Locations nested in a matching name are not
    searched."""
    return list(dict.fromkeys(numbers(location, prefix)))


def numbers(location, prefix):
    if isinstance(location, ir.NameLoc):
        name = location.name_str
        if name.startswith(prefix) and name[len(prefix) :].isdecimal():
            return [int(name[len(prefix) :])]
        return numbers(location.child_loc, prefix)
    if isinstance(location, ir.CallSiteLoc):
        return numbers(location.callee, prefix)
    if isinstance(location, ir.FusedLoc):
        return [number for each in location.locations for number in numbers(each, prefix)]
    return []


def label(location, path, title):
    """Return the first name and the first `file:line:column` in a location.

    A part that is missing is None. If the file is `path`, the result has `title` in place of its name."""
    if isinstance(location, ir.NameLoc):
        _, place = label(location.child_loc, path, title)
        return location.name_str, place
    if isinstance(location, ir.FileLineColLoc):
        file = title if location.filename == path else location.filename
        return None, f"{file}:{location.start_line}:{location.start_col}"
    if isinstance(location, ir.CallSiteLoc):
        return label(location.callee, path, title)
    name = place = None
    if isinstance(location, ir.FusedLoc):
        for each in location.locations:
            found = label(each, path, title)
            name, place = name or found[0], place or found[1]
    return name, place


def calls(module):
    """Return a dict from the name of each function to the names of the functions that it calls.

    Functions without calls are left out."""
    found = {}
    for top in children(module.operation):
        inside = [each for each in walk(top) if each.name == "util.call"]
        if inside and "sym_name" in top.attributes:
            callees = [ir.FlatSymbolRefAttr(each.attributes["callee"]).value for each in inside]
            found[ir.StringAttr(top.attributes["sym_name"]).value] = callees
    return found
