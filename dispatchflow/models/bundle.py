"""Format the text files of a bundle.

A bundle is a folder in which the sites of a program can be run separately. A site is a place of the program that
launches a dispatch. docs/sites-alone.md lists the files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from dispatchflow.models.extraction import FUNCTION, Sweep
from dispatchflow.models.site import Program, Site

SPEC, REPRO, README = "sites.toml", "repro.sh", "README"
MARK = "# Sites of "
"""The first words of `sites.toml` in a bundle.

If a folder has files, `doit extract` overwrites them only if the folder's `sites.toml` begins with these words."""


class Bundle(msgspec.Struct, frozen=True):
    """The content of a bundle, a folder in which the sites of one case can be run separately.

    The content includes the flags with which the sites are compiled and run."""

    case: str
    title: str
    """The beginning of the name that each site gets in `sites.toml`: `net` in `net.s01`."""
    target: str
    threads: int | None
    flags: str
    """The value of `flags` in `sites.toml`: compiler flags besides those of the target. It may be empty."""
    compiler: tuple[str, ...]
    """All flags with which `repro.sh` compiles a site."""
    device: tuple[str, ...]
    """The flags with which IREE's tools, such as `iree-run-module`, choose the device."""
    iree: str
    """The version of the compiler."""
    program: Program
    sweeps: tuple[Sweep, ...]
    left_out: str | None = None
    """The name of the case's tuning if `sites.toml` leaves the tuning out; otherwise None.

    A tuning that reads a file is left out."""
    replay: bool = False
    """True if `repro.sh run` also records each call in a file that `iree-run-replay` reads."""
    execution: int | None = None
    """Which execution of each site was captured, counted from 1; None if it was the last execution."""
    wrong: bool = False
    """True if the results of the case are wrong.

    The expected results of the sites, which the case computed, may then be wrong too."""


WRONG = (
    "The results of the case are wrong. The expected results of a site are what the case computed, so they may be wrong"
    " too; doit locate finds the wrong sites."
)


def spec(bundle: Bundle) -> str:
    """Return the text of `sites.toml`, a spec (input file) of dispatchflow."""
    lines = [f"{MARK}{bundle.case}, each by itself. The files are relative to this one."]
    if bundle.left_out:
        lines.append(f"# The case has the tuning {bundle.left_out}. It reads a file and is left out here.")
    if bundle.wrong:
        lines.append(f"# {WRONG}")
    for sweep in bundle.sweeps:
        lines += ["", *_sweep(bundle, sweep)]
    return "\n".join(lines) + "\n"


def _sweep(bundle: Bundle, sweep: Sweep) -> Iterator[str]:
    yield f"# {_called(bundle, sweep)}"
    off = "" if sweep.inputs is not None else "# "
    if sweep.why:
        yield f"# {sweep.why}" if sweep.why.startswith("not ") else f"# not compared: {sweep.why}"
    words = {
        "operation": "module",
        "file": f"{sweep.name}.mlir",
        "name": f"{bundle.title}.{sweep.name}",
        "inputs": list(sweep.inputs or ()),
        "expected": list(sweep.expected),
        "target": bundle.target,
        "threads": bundle.threads,
        "flags": bundle.flags,
    }
    yield f"{off}[[sweep]]"
    for word, value in words.items():
        if value or word == "inputs":
            yield f"{off}{word} = {json.dumps(value, ensure_ascii=False)}"


def _called(bundle: Bundle, sweep: Sweep) -> str:
    """Return text that names a site, its kernel, and the other sites that share its module.

    The site is `sweep.site`. An example is `site 1, KERNEL; the same module as site 4, 7`: the dispatches of these
    three sites are equal."""
    same = f"; the same module as site {', '.join(map(str, sweep.same))}" if sweep.same else ""
    return f"site {sweep.site.number}, {sweep.site.export}{same}"


def repro(bundle: Bundle) -> str:
    """Return the text of the script `repro.sh`, which compiles, runs or benchmarks sites.

    docs/sites-alone.md describes the script's arguments, and how it compares results."""
    runnable = [sweep for sweep in bundle.sweeps if sweep.inputs is not None]
    local = any(flag.startswith("--device=local") for flag in bundle.device)
    cases = "\n".join(_given(sweep) for sweep in runnable)
    flags = _broken([*bundle.compiler, "-o"])
    recorded = ' --device_replay_output="$1.ireereplay"' if bundle.replay else ""
    return f"""\
#!/bin/sh
# {bundle.case}: its sites by themselves, with iree-compile, iree-run-module and iree-benchmark-module of {bundle.iree}
# usage: sh {REPRO} compile | run | benchmark [SITE …]
set -eu
cd "$(dirname "$0")"
sites="{" ".join(sweep.name for sweep in runnable)}"

compile() {{
  iree-compile "$1.mlir" {flags} "$1.vmfb"
}}

# The inputs and results of a site: sets inputs, results and expected.
given() {{
  case $1 in
{cases}
  *) echo "$1: no such site; there are: $sites" >&2; exit 2 ;;
  esac
}}

call() {{
  tool=$1 site=$2
  shift 2
  "$tool" --module="$site.vmfb" {shlex.join(bundle.device)} --function={FUNCTION} "$@"
}}

run() {{
  given "$1"
  outputs="" same="the same bits as expected"
  for result in $results; do outputs="$outputs --output=@$1.got.$result.bin"; done
  [ -n "$results" ] || {{ call iree-run-module "$1" $inputs --output_max_element_count=8{recorded}; return; }}
  call iree-run-module "$1" $inputs $outputs{recorded} > "$1.log" || {{ echo "$1: does not run"; return 1; }}
  for result in $results; do
    cmp -s "$1.got.$result.bin" "$1.$result.bin" || same=""
  done
  if [ -n "$same" ]; then
    echo "$1: $same"
  else
    echo "$1: other bits than expected; within the tolerance of iree-run-module?"
    call iree-run-module "$1" $inputs $expected
  fi
}}

benchmark() {{
  given "$1"
  call iree-benchmark-module "$1" {"--device_allocator=caching " if local else ""}$inputs
}}

what=${{1:-}}
case $what in
compile | run | benchmark) shift ;;
*) echo "usage: sh {REPRO} compile | run | benchmark [SITE …]" >&2; exit 2 ;;
esac
[ $# -gt 0 ] || set -- $sites
failed=0
for site in "$@"; do
  given "$site"
  if [ "$what" = compile ] || [ ! "$site.vmfb" -nt "$site.mlir" ]; then
    compile "$site" || {{ echo "$site: does not compile"; failed=1; continue; }}
  fi
  [ "$what" = compile ] || "$what" "$site" || failed=1
done
exit $failed
"""


def _given(sweep: Sweep) -> str:
    """Return shell code for one site: the branch of a `case` statement in `repro.sh`.

    The branch sets the shell variables `inputs` and `expected` to flags for IREE's tools, and `results` to the names
    of the results, such as `out0 out1`."""
    # The flags need no quotes: they have no characters that the shell interprets.
    inputs = " ".join(f"--input={_of_tools(word)}" for word in sweep.inputs or ())
    names = [f"out{i}" for i in range(len(sweep.expected))]
    results = " ".join(f"--expected_output={_of_tools(word)}" for word in sweep.expected)
    return f"""\
  {sweep.name})
    inputs="{inputs}"
    results="{" ".join(names)}"
    expected="{results}"
    ;;"""


def _of_tools(word: str) -> str:
    """Convert an entry of a spec's `inputs` or `expected` to the spelling of IREE's tools.

    For example, `tensor<f32>=@x.bin` becomes `f32=@x.bin`. IREE's tools cannot make random integers in a range, so the
    range `0..1`, the only one that occurs, is replaced by its first number."""
    type_, equals, value = word.partition("=")
    return f"{type_.removeprefix('tensor<').removesuffix('>')}{equals}{'0' if value == '0..1' else value}"


def _broken(flags: Sequence[str]) -> str:
    return " \\\n    ".join(shlex.quote(flag) for flag in flags)


def readme(bundle: Bundle) -> str:
    """Return the text of `README`: the toolchain, the commands, and what each site computes."""
    device = shlex.join(bundle.device)
    lines = [
        f"Sites of {bundle.case}, each as a module of its own.",
        "",
        f"compiler  {bundle.iree}",
        f"target    {bundle.target}",
        f"device    {device}",
        f"flags     {shlex.join(bundle.compiler)}",
        "",
        f"With IREE's tools:   sh {REPRO} run; sh {REPRO} benchmark",
        f"With dispatchflow:   doit specs=THIS_FOLDER 'profile:*'; {SPEC} says what is compared",
    ]
    if bundle.wrong:
        lines += ["", WRONG]
    if bundle.execution:
        lines.append(f"Operands and results are those of execution {bundle.execution} of each site.")
    if bundle.replay:
        lines.append(
            "`run` records each call: iree-run-replay, iree-benchmark-replay and iree-dump-replay s01.ireereplay"
        )
    for sweep in bundle.sweeps:
        lines += ["", f"{sweep.name}.mlir  {_called(bundle, sweep)}"]
        lines += [f"  computes  {text}" for text in sources(bundle.program, sweep.site)]
        lines += [f"  takes     {word}" for word in sweep.inputs or ()]
        lines += [f"  gives     {word}" for word in sweep.expected]
        lines += [f"  {sweep.why}"] if sweep.why else []
    return "\n".join(lines) + "\n"


def sources(program: Program, site: Site) -> list[str]:
    """Return one line of text for each operation in the user's source that `site` computes.

    The line has the operation's kind, such as `linalg.matmul` or `onnx.Conv`. The operation's name and its place in
    the source follow, if they are known."""
    known = {operation.number: operation for operation in program.operations}
    found = (known[origin.operation] for origin in site.origins)
    return [" ".join(filter(None, (each.kind, each.name, each.place))) for each in found]
