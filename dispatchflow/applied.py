"""Reads back what the compiler did, from `--iree-hal-dump-executable-configurations-to`; and what a user's module asks
it to do, in the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dispatchflow.attributes import canonical, closing, configurations, split, unescaped
from dispatchflow.tunings import Applied, AppliedExecutable

_EXECUTABLE = re.compile(r"hal\.executable\.export public @(?:\"([^\"]+)\"|(\S+))")
# `#iree_cpu.pipeline<Name>`, `#iree_codegen.vmvx_pipeline`; before 3.12 a bare `CPUName`; before 3.0 without a keyword.
_PIPELINE = re.compile(
    r"translation_info<(?:pipeline = )?(?:#[\w.]*pipeline<(\w+)>|#[\w.]*\.(\w+)|(?:(?:CPU|LLVMGPU))?(\w+))(?=[ >,])"
)
# Of the op itself, `{lowering_config = …`: not one inside an attribute that the compiler did not know and kept.
_CONFIGURED = re.compile(r"(?:= )?\"?([a-z_]\w*\.[\w.]+)\"? [^\n]*?(?<=[{ ])lowering_config = #[\w.]+lowering_config<")


def parse(dump: str, given: str = "") -> Applied:
    """One executable for each `hal.executable.export`, in the dump's order, each with what it configured. `given`: the
    dump from before the compiler chose."""
    starts = [match.start() for match in _EXECUTABLE.finditer(dump)]
    executables = []
    for begin, end in zip(starts, [*starts[1:], len(dump)], strict=False):
        text = dump[begin:end]
        name, pipeline = _EXECUTABLE.match(text), _PIPELINE.search(text)
        assert name is not None
        executables.append(
            AppliedExecutable(
                name=unescaped(name[1]) if name[1] else name[2],
                pipeline=_name(pipeline) if pipeline else "none",
                # `linalg.generic` says its attributes after its region's opening line: one line, one op.
                configurations=tuple(
                    (m[1].rsplit(".", 1)[-1], canonical(text[m.end() : closing(text, m.end() - 1)]))
                    for m in _CONFIGURED.finditer(text)
                ),
                translation=_translation(text, pipeline) if pipeline else "",
            )
        )
    return Applied(tuple(executables), tuple(dict.fromkeys(configurations(given))))


def asked(text: str) -> tuple[str, ...]:
    """What a module as the compiler prints it asks for: translations and lowering configurations, each once. What no
    operation uses the compiler does not print."""
    translations = (f"{_name(match)} {_translation(text, match)}".strip() for match in _PIPELINE.finditer(text))
    return tuple(dict.fromkeys((*translations, *configurations(text))))


def lacking(wanted: Sequence[str], applied: Applied) -> str | None:
    """What of this, as `asked` says it, was not done; None when all was."""
    done = {config for executable in applied.executables for _, config in executable.configurations}
    done |= {f"{executable.pipeline} {executable.translation}".strip() for executable in applied.executables}
    return next((one for one in wanted if one not in done), None)


def _name(pipeline: re.Match[str]) -> str:
    return str(next(filter(None, pipeline.groups())))


def _translation(text: str, pipeline: re.Match[str]) -> str:
    """What else the translation says: sizes of the workgroup and subgroup, options of the pipeline."""
    opening = text.index("<", pipeline.start())
    sizes, *options = split(text[pipeline.end() : closing(text, opening)]) or [""]
    return ", ".join([*sizes.split("  "), *map(canonical, options)]).strip()
