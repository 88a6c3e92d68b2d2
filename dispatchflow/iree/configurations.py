"""Reads back what the compiler did, from `--iree-hal-dump-executable-configurations-to`; and what a user's module asks
it to do, in the same words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dispatchflow.mlir.attributes import canonical, closing, configurations, split, unescaped

_EXECUTABLE = re.compile(r"hal\.executable\.export public @(?:\"([^\"]+)\"|(\S+))")
# `#iree_cpu.pipeline<Name>`, `#iree_codegen.vmvx_pipeline`; before 3.12 a bare `CPUName`; before 3.0 without a keyword.
_PIPELINE = re.compile(
    r"translation_info<(?:pipeline = )?(?:#[\w.]*pipeline<(\w+)>|#[\w.]*\.(\w+)|(?:(?:CPU|LLVMGPU))?(\w+))(?=[ >,])"
)
# `linalg.generic` says its attributes after its region's opening line: one line, one op.
_CONFIGURED = re.compile(r"(?:= )?\"?([a-z_]\w*\.[\w.]+)\"? ([^\n]*?(?<=[{ ])lowering_config = [^\n]*)")
_LOWERING = re.compile(r"(?<=[{ ])lowering_config = #[\w.]+lowering_config<")
_ALIAS = re.compile(r"^(#\w+) = (.*)$", re.MULTILINE)
_ASKING = re.compile(r"#[\w.]*(?:compilation_info|lowering_config|translation_info)<")
_ALIASED = re.compile(r"#\w+(?![\w.])")
# Of a value or a symbol: what equal operations do not share.
_NAME = re.compile(r"%[\w#]+|@(?:\"[^\"]*\"|[\w.$-]+)")
AND = " and "


@dataclass(frozen=True, slots=True)
class Applied:
    """What the compiler did, read from its own dump of one module (see `configurations.parse`)."""

    executables: tuple[AppliedExecutable, ...]
    given: tuple[str, ...] = ()
    """Configurations that ops had before the compiler chose any; none where `GIVEN` was not asked for."""

    @property
    def text(self) -> str:
        """One line: executables joined by ` | `; the row's `applied_configuration`."""
        return " | ".join(executable.text for executable in self.executables)


@dataclass(frozen=True, slots=True)
class AppliedExecutable:
    """One dispatch: its name, its pipeline, (operation, configuration) of each configured op, and what else the
    translation says: `workgroup_size = [128, 1, 1] subgroup_size = 32, …`. `inner`: of what an op becomes, the products
    of an attention."""

    name: str
    pipeline: str
    configurations: tuple[tuple[str, str], ...]
    translation: str = ""
    inner: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        configured = (f"{op}<{config}>" for op, config in self.configurations)
        return " ".join([self.pipeline, *filter(None, [self.translation]), *configured])


def parse(dump: str, given: str = "") -> Applied:
    """One executable for each `hal.executable.export`, in the dump's order, each with what it configured. `given`: the
    dump from before the compiler chose."""
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
    """The lowering configurations of an op's line, and whether each is the op's own: `{lowering_config = …`, not inside
    another attribute, as those of attention's two products are, or one that the compiler did not know and kept."""
    for match in _LOWERING.finditer(line):
        before = line[: match.start()]
        own = before.count("{") - before.count("}") == 1
        yield canonical(line[match.end() : closing(line, match.end() - 1)]), own


def requested_by(text: str) -> tuple[str, ...]:
    """What a module as the compiler prints it asks for: translations, lowering configurations, and a `compilation_info`
    as both, joined by `and`. As often as there are operations that ask for it and that the compiler cannot merge: equal
    ones are one, and one of dynamic sizes may turn out equal to any. What no operation uses it does not print."""
    aliases = dict[str, str]()

    def whole(written: str) -> str:
        return _ALIASED.sub(lambda match: aliases.get(match[0], match[0]), written)

    for name, body in _ALIAS.findall(text):
        if _ASKING.search(said := whole(body)):
            aliases[name] = said
    lines = (line.strip() for line in text.splitlines() if "#" in line and not line.startswith("#"))
    operations = dict.fromkeys(_NAME.sub("", line) for line in lines)
    told = [(one, "?" in line) for line in operations for one in dict.fromkeys(_requests(whole(line)))]
    sized = [one for one, dynamic in told if not dynamic]
    return (*sized, *dict.fromkeys(one for one, dynamic in told if dynamic and one not in sized))


def _requests(text: str) -> Iterator[str]:
    """Of each attribute of an operation's line. One `compilation_info` is one."""
    end = 0
    while match := _ASKING.search(text, end):
        end = closing(text, match.end() - 1) + 1
        attribute = text[match.start() : end]
        translations = (f"{_name(m)} {_translation(attribute, m)}".strip() for m in _PIPELINE.finditer(attribute))
        if said := AND.join((*translations, *configurations(attribute))):
            yield said


def unapplied(wanted: Sequence[str], applied: Applied) -> str | None:
    """The first of these requests, from `requested_by`, that was not applied; None when all were. One that was applied
    less often than requested counts where some dispatch has nothing of what is wanted: else the compiler may have
    removed what asked for it."""
    done = [_applied_requests(executable) for executable in applied.executables]
    times = Counter(demand for one in done for demand in one)
    chosen = any(one.isdisjoint(wanted) for one in map(set, done))
    for demand, asking in Counter(wanted).items():
        if not times[demand]:
            return demand
        if times[demand] < asking and chosen:
            return f"{demand} for {asking} operations, of which {times[demand]} got it"
    return None


def _applied_requests(executable: AppliedExecutable) -> list[str]:
    """In the words of `requested_by`."""
    translation = f"{executable.pipeline} {executable.translation}".strip()
    each = [config for _, config in executable.configurations]
    return [translation, *each, *executable.inner, *(f"{translation}{AND}{config}" for config in each)]


def _name(pipeline: re.Match[str]) -> str:
    return str(next(filter(None, pipeline.groups())))


def _translation(text: str, pipeline: re.Match[str]) -> str:
    """What else the translation says: sizes of the workgroup and subgroup, options of the pipeline."""
    opening = text.index("<", pipeline.start())
    sizes, *options = split(text[pipeline.end() : closing(text, opening)]) or [""]
    return ", ".join([*sizes.split("  "), *map(canonical, options)]).strip()
