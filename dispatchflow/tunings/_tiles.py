"""What families that give tile sizes share: an op-level `compilation_info`, its reading back, their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dispatchflow.tunings.api import Applied, Lowering, Operation


def lowering(configuration: str, pipeline: str, region: bool = False) -> Lowering:
    """`pipeline`: with what else the translation says."""
    return Lowering(
        prelude=f"""\
#config = {configuration}
#translation = #iree_codegen.translation_info<pipeline = {pipeline}>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
""",
        attribute="{compilation_info = #compilation} ",
        region=region,
    )


def untiled(operation: Operation) -> str | None:
    """Why no tiles can be given here, None where an op takes them."""
    return None if operation.loops else f"tiles are given to no op of {operation.name}"


def ignored(pipeline: str, translation: str, configuration: str, applied: Applied) -> str | None:
    """Why no op has all of what was asked for, None when one has."""
    for executable in applied.executables:
        if (executable.pipeline, executable.translation) == (pipeline, translation) and any(
            found == configuration for _, found in executable.configurations
        ):
            return None
    return not_applied(f"{pipeline} {translation} {configuration}", applied)


def not_applied(asked: str, applied: Applied) -> str:
    return f"asked for {asked}; applied {applied.text or 'nothing'}"


def sizes(name: str, value: object, form: str, least: int = 1) -> tuple[int, ...]:
    """A parameter's sizes; `form` is what it must look like: `[m, n]`, `k`, or several with ` or `.

    Raises:
        ValueError: another number of them, or one below `least`.
    """
    found = tuple(value) if isinstance(value, list | tuple) else (value,)
    counts = {one.count(",") + 1 for one in form.split(" or ")}
    if len(found) not in counts or not all(type(size) is int and size >= least for size in found):
        kind = "positive integers" if least else "integers, 0 or more"
        raise ValueError(f"{name} = {value!r}; expected {form}, {kind}")
    return found


def check_names(parameters: Mapping[str, object], forms: Mapping[str, str], optional: Iterable[str] = ()) -> None:
    """Raises:
    ValueError: a parameter that is unknown, or one missing.
    """
    unknown = sorted(set(parameters) - set(forms))
    missing = sorted(set(forms) - set(parameters) - set(optional))
    if unknown or missing:
        wrong = f"unknown parameter '{unknown[0]}'" if unknown else f"parameter '{missing[0]}' is missing"
        raise ValueError(f"{wrong}; allowed are {', '.join(f'{name} = {form}' for name, form in forms.items())}")
