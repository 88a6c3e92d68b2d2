"""Shared code of tuning families with tile sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dispatchflow.tunings.api import Applied, Lowering, Operation


def lowering(configuration: str, pipeline: str, region: bool = False) -> Lowering:
    """Return the MLIR text that sets the tile sizes of an op, in the op's attribute `compilation_info`.

    `configuration` is the lowering configuration as text. `pipeline` is a pipeline's name, optionally followed by
    further fields of `translation_info`. `region`: see `Lowering.region`."""
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
    """Return why an operation cannot have tile sizes, or None if it can."""
    return None if operation.loops else f"no op of {operation.name} takes tiles"


def ignored(pipeline: str, translation: str, configuration: str, applied: Applied) -> str | None:
    """Return the requested and the applied configuration as text if no op has the requested configuration.

    Returns None if at least one op has the requested pipeline, translation info and lowering configuration."""
    for executable in applied.executables:
        if (executable.pipeline, executable.translation) == (pipeline, translation) and any(
            found == configuration for _, found in executable.configurations
        ):
            return None
    return not_applied(f"{pipeline} {translation} {configuration}", applied)


def not_applied(asked: str, applied: Applied) -> str:
    return f"asked for {asked}; applied {applied.text or 'nothing'}"


def sizes(name: str, value: object, form: str, least: int = 1) -> tuple[int, ...]:
    """Check the value of a tuning parameter, and return the sizes in it.

    `form` is the allowed form, such as `[m, n] or [m, n, k]`.

    Raises:
        ValueError: the number of sizes is wrong, or a size is below `least` or not an integer."""
    found = tuple(value) if isinstance(value, list | tuple) else (value,)
    counts = {one.count(",") + 1 for one in form.split(" or ")}
    if len(found) not in counts or not all(type(size) is int and size >= least for size in found):
        kind = "positive integers" if least else "integers, 0 or more"
        raise ValueError(f"{name} = {value!r}; expected {form}, {kind}")
    return found


def check_names(parameters: Mapping[str, object], forms: Mapping[str, str], optional: Iterable[str] = ()) -> None:
    """Check the names of a tuning's parameters.

    `forms` maps the name of each allowed parameter to the form of its value, such as `[m, n]`.

    Raises:
        ValueError: a parameter is unknown, or a parameter that is not in `optional` is missing."""
    unknown = sorted(set(parameters) - set(forms))
    missing = sorted(set(forms) - set(parameters) - set(optional))
    if unknown or missing:
        wrong = f"unknown parameter '{unknown[0]}'" if unknown else f"parameter '{missing[0]}' is missing"
        raise ValueError(f"{wrong}; allowed are {', '.join(f'{name} = {form}' for name, form in forms.items())}")
