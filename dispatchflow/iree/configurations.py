"""Find the lowering configurations that the compiler applied, and those that a user's module requests.

A configuration says how an op is lowered, for example its tile sizes. Applied and requested configurations have the
same spelling, so that they can be compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dispatchflow.mlir.attributes import canonical, closing, configurations, split, unescaped

_EXECUTABLE = re.compile(r"hal\.executable\.export public @(?:\"([^\"]+)\"|(\S+))")
# `#iree_cpu.pipeline<Name>`, `#iree_codegen.vmvx_pipeline`; before 3.12 `CPUName`; before 3.0 without `pipeline =`.
_PIPELINE = re.compile(
    r"translation_info<(?:pipeline = )?(?:#[\w.]*pipeline<(\w+)>|#[\w.]*\.(\w+)|(?:(?:CPU|LLVMGPU))?(\w+))(?=[ >,])"
)
# An op and all its attributes are on one line, also for `linalg.generic`.
_CONFIGURED = re.compile(r"(?:= )?\"?([a-z_]\w*\.[\w.]+)\"? ([^\n]*?(?<=[{ ])lowering_config = [^\n]*)")
_LOWERING = re.compile(r"(?<=[{ ])lowering_config = #[\w.]+lowering_config<")
_ALIAS = re.compile(r"^(#\w+) = (.*)$", re.MULTILINE)
_ASKING = re.compile(r"#[\w.]*(?:compilation_info|lowering_config|translation_info)<")
_ALIASED = re.compile(r"#\w+(?![\w.])")
# A value or a symbol: equal operations differ only in these.
_NAME = re.compile(r"%[\w#]+|@(?:\"[^\"]*\"|[\w.$-]+)")
AND = " and "


@dataclass(frozen=True, slots=True)
class Applied:
    """The lowering configurations that the compiler applied to one module."""

    executables: tuple[AppliedExecutable, ...]
    given: tuple[str, ...] = ()
    """Configurations that ops had before the compiler chose any."""

    @property
    def text(self) -> str:
        """The value of the column `applied_configuration`: each executable's `text`, joined by ` | `."""
        return " | ".join(executable.text for executable in self.executables)


@dataclass(frozen=True, slots=True)
class AppliedExecutable:
    """The configurations of one executable, which is the code of one dispatch."""

    name: str
    pipeline: str
    configurations: tuple[tuple[str, str], ...]
    """(name of the op, configuration) for each op that has a lowering configuration."""
    translation: str = ""
    """The `translation_info` without the pipeline: `workgroup_size = [128, 1, 1] subgroup_size = 32, …`."""
    inner: tuple[str, ...] = ()
    """The configurations of the ops into which an op is decomposed.

    For example, the `decomposition_config` of an attention op has the configurations of its two matrix products."""

    @property
    def text(self) -> str:
        configured = (f"{op}<{config}>" for op, config in self.configurations)
        return " ".join([self.pipeline, *filter(None, [self.translation]), *configured])


def parse(dump: str, given: str = "") -> Applied:
    """Parse `dump`, which the compiler wrote with `--iree-hal-dump-executable-configurations-to`.

    `given` is a dump of the same module from before the compiler chose configurations; it may be empty. The
    configurations in `given` become `Applied.given`."""
    starts = [match.start() for match in _EXECUTABLE.finditer(dump)]
    executables = []
    for begin, end in zip(starts, [*starts[1:], len(dump)], strict=False):
        text = dump[begin:end]
        name, pipeline = _EXECUTABLE.match(text), _PIPELINE.search(text)
        assert name is not None
        found = [(op[1].rsplit(".", 1)[-1], *one) for op in _CONFIGURED.finditer(text) for one in _configured(op[2])]
        executables.append(
            AppliedExecutable(
                name=unescaped(name[1]) if name[1] else name[2],
                pipeline=_name(pipeline) if pipeline else "none",
                configurations=tuple((op, config) for op, config, own in found if own),
                translation=_translation(text, pipeline) if pipeline else "",
                inner=tuple(config for _, config, own in found if not own),
            )
        )
    return Applied(tuple(executables), tuple(dict.fromkeys(configurations(given))))


def _configured(line: str) -> Iterator[tuple[str, bool]]:
    """Yield (configuration, own) for each lowering configuration on the line of an op.

    `own` is false if the configuration is inside a dictionary that is an attribute of the op, such as
    `decomposition_config = {…}`. Otherwise `own` is true."""
    for match in _LOWERING.finditer(line):
        before = line[: match.start()]
        own = before.count("{") - before.count("}") == 1
        yield canonical(line[match.end() : closing(line, match.end() - 1)]), own


def requested_by(text: str) -> tuple[str, ...]:
    """Return the lowering configurations that the operations of a printed module request.

    A configuration can occur several times, if different operations request it."""
    aliases = dict[str, str]()

    def whole(written: str) -> str:
        return _ALIASED.sub(lambda match: aliases.get(match[0], match[0]), written)

    for name, body in _ALIAS.findall(text):
        if _ASKING.search(said := whole(body)):
            aliases[name] = said
    lines = (line.strip() for line in text.splitlines() if "#" in line and not line.startswith("#"))
    # Equal operations count as one, because the compiler may merge them.
    operations = dict.fromkeys(_NAME.sub("", line) for line in lines)
    told = [(one, "?" in line) for line in operations for one in dict.fromkeys(_requests(whole(line)))]
    sized = [one for one, dynamic in told if not dynamic]
    # An operation with dynamic sizes adds no second copy of a configuration.
    return (*sized, *dict.fromkeys(one for one, dynamic in told if dynamic and one not in sized))


def _requests(text: str) -> Iterator[str]:
    """Yield the lowering configurations in `text`, the line of an operation.

    A `compilation_info` is one configuration, although it contains two attributes."""
    end = 0
    while match := _ASKING.search(text, end):
        end = closing(text, match.end() - 1) + 1
        attribute = text[match.start() : end]
        translations = (f"{_name(m)} {_translation(attribute, m)}".strip() for m in _PIPELINE.finditer(attribute))
        if said := AND.join((*translations, *configurations(attribute))):
            yield said


def unapplied(wanted: Sequence[str], applied: Applied) -> str | None:
    """Describe the first configuration in `wanted` that the compiler did not apply as requested.

    Returns None if there is no such configuration."""
    done = [_applied_requests(executable) for executable in applied.executables]
    times = Counter(demand for one in done for demand in one)
    chosen = any(one.isdisjoint(wanted) for one in map(set, done))
    for demand, asking in Counter(wanted).items():
        if not times[demand]:
            return demand
        # If every dispatch got a requested configuration, the compiler is assumed to have removed the operation.
        if times[demand] < asking and chosen:
            return f"{demand} for {asking} operations, of which {times[demand]} got it"
    return None


def _applied_requests(executable: AppliedExecutable) -> list[str]:
    """Return the requests that an executable satisfies, in the spelling of `requested_by`.

    Pipeline `P` with configuration `C` gives `["P", "C", "P and C"]`. The result also has the texts in
    `executable.inner`."""
    translation = f"{executable.pipeline} {executable.translation}".strip()
    each = [config for _, config in executable.configurations]
    return [translation, *each, *executable.inner, *(f"{translation}{AND}{config}" for config in each)]


def _name(pipeline: re.Match[str]) -> str:
    return str(next(filter(None, pipeline.groups())))


def _translation(text: str, pipeline: re.Match[str]) -> str:
    """Return the part of a `translation_info` that follows the name of its pipeline.

    This part may have the sizes of workgroups and subgroups, such as `workgroup_size = [128, 1, 1] subgroup_size = 32`.
    Options of the pipeline may follow."""
    opening = text.index("<", pipeline.start())
    sizes, *options = split(text[pipeline.end() : closing(text, opening)]) or [""]
    return ", ".join([*sizes.split("  "), *map(canonical, options)]).strip()
