"""Each module that is extracted from a program gets a `[[sweep]]` table in a spec.

A module has one dispatch of the program. The table names the module's file, its inputs and its expected results. A
folder with the modules, the spec and a script is called a bundle."""

import struct
import subprocess
import tomllib

import msgspec

from dispatchflow.mlir import functions
from dispatchflow.models import bundle, extraction
from dispatchflow.models.bundle import Bundle
from dispatchflow.models.extraction import Argument, Extract, Extracted, Value
from dispatchflow.models.site import Program, Site


def site(number: int, dispatch: int | None) -> Site:
    return Site(number, "main", False, "exe", f"kernel_{dispatch}", 0, number - 1, dispatch=dispatch)


PROGRAM = Program((), (site(1, 0), site(2, 1), site(3, 2), site(4, None)))
FIXED = Extract("exe", "a", (Argument("tensor<4x8xf32>", "in0"), Argument("tensor<i64>", "in1")), ("tensor<4xf32>",))
DYNAMIC = Extract(
    "exe",
    "b",
    (Argument("index", "in0"), Argument("tensor<?x8xf32>", "in1"), Argument("index", "in1", 0)),
    ("tensor<?xf32>",),
)
EXTRACTED = Extracted((FIXED, DYNAMIC), {0: 0, 1: 1, 2: 0})
TENSORS = {"in0": Value("4x8xf32"), "in1": Value("tensor<i64>"), "out0": Value("4xf32")}


def made(captured: dict[str, Value] | str, number: int = 0) -> extraction.Sweep:
    sites = extraction.chosen(PROGRAM, EXTRACTED, [1, 2, 3])[number]
    return extraction.sweep(PROGRAM, EXTRACTED, number, sites, captured)


def text(*sweeps: extraction.Sweep, flags: str = "") -> Bundle:
    return Bundle(
        "net@llvm-cpu", "net", "llvm-cpu", 1, flags, ("--a=b c",), ("--device=local-sync",), "3.13", PROGRAM, sweeps
    )


def test_sites_of_equal_dispatches_share_a_module_that_the_first_requested_one_names() -> None:
    assert {key: [s.number for s in of] for key, of in extraction.chosen(PROGRAM, EXTRACTED, [1, 2, 3]).items()} == {
        0: [1, 3],
        1: [2],
    }
    assert list(extraction.chosen(PROGRAM, EXTRACTED, [3, 4])) == [0]
    assert extraction.without_module(PROGRAM, EXTRACTED, [3, 4]) == [4]
    assert made("no capture").same == (3,) and extraction.stem(3, PROGRAM) == "s03"
    many = Program((), tuple(site(i + 1, i) for i in range(100)))
    assert extraction.stem(3, many) == "s003"


def test_captured_values_are_files_with_types_and_sizes_of_run_time() -> None:
    sweep = made(TENSORS)
    assert sweep.inputs == ("4x8xf32=@s01.in0.bin", "tensor<i64>=@s01.in1.bin")
    assert sweep.expected == ("4xf32=@s01.out0.bin",) and sweep.why is None
    assert dict(sweep.files) == {"s01.in0.bin": "in0", "s01.in1.bin": "in1", "s01.out0.bin": "out0"}


def test_numbers_and_sizes_are_words() -> None:
    values = {"in0": Value("index", struct.pack("<q", 48)), "in1": Value("6x8xf32"), "out0": Value("48xf32")}
    assert made(values, 1).inputs == ("48", "6x8xf32=@s02.in1.bin", "6")
    assert made({**values, "in0": Value("index", struct.pack("<q", -3))}, 1).inputs[0] == "-3"


def test_values_that_were_not_captured_are_named_and_not_compared() -> None:
    vague = made({**TENSORS, "out0": Value("4xf32", undefined=True)})
    assert vague.inputs and not vague.expected and "out0 has elements that the program never wrote" in str(vague.why)
    follows = made({**TENSORS, "in0": Value("4x8xf32", undefined=True), "out0": Value("4xf32", undefined=True)})
    assert follows.expected == ("4xf32=@s01.out0.bin",)  # the operand's elements are those of the capture
    assert made({"in0": TENSORS["in0"]}).why == "in1 was not captured: give inputs"
    assert "out0 was not captured" in str(made({n: v for n, v in TENSORS.items() if n != "out0"}).why)


def test_without_a_capture_inputs_are_random_where_their_types_are_known() -> None:
    assert made("no capture").inputs == ("4x8xf32", "tensor<i64>=0..1")
    unsized = made("no capture", 1)
    later = "random inputs need numbers or sizes that only a capture has"
    assert unsized.inputs is None and unsized.why == f"no capture; {later}: give inputs"


def test_a_bundle_of_a_wrong_case_says_so() -> None:
    right = text(made(TENSORS))
    wrong = msgspec.structs.replace(right, wrong=True)
    for page in (bundle.spec, bundle.readme):
        assert bundle.WRONG in page(wrong) and bundle.WRONG not in page(right)
    assert tomllib.loads(bundle.spec(wrong)) == tomllib.loads(bundle.spec(right))


def test_a_site_with_complex_numbers_has_no_sweep_and_the_others_go_on() -> None:
    for module in (
        Extract("exe", "a", (Argument("tensor<8xcomplex<f32>>", "in0"),), ("tensor<8xf32>",)),
        Extract("exe", "a", (Argument("tensor<8xf32>", "in0"),), ("tensor<8xcomplex<f32>>",)),
    ):
        values = {"in0": Value("8xf32"), "out0": Value("8xf32")}
        found = extraction.sweep(PROGRAM, Extracted((module, DYNAMIC), {0: 0, 1: 1}), 0, [PROGRAM.sites[0]], values)
        assert found.inputs is None and "complex numbers" in str(found.why)


def test_an_operand_with_an_encoding_is_no_argument() -> None:
    packed = Extract("exe", "a", (Argument("tensor<4x8xf32, #iree_encoding.encoding<x>>", "in0"),), ())
    found = extraction.sweep(PROGRAM, Extracted((packed,), {0: 0}), 0, [PROGRAM.sites[0]], TENSORS)
    assert found.inputs is None and "its operands have an encoding" in str(found.why)


def test_the_spec_is_toml_and_a_sweep_without_inputs_is_a_comment() -> None:
    spec = bundle.spec(text(made(TENSORS), made("no capture", 1), flags="--iree-opt-level=O2 '--x=\"y'"))
    (sweep,) = tomllib.loads(spec)["sweep"]
    assert sweep["name"] == "net.s01" and sweep["file"] == "s01.mlir" and sweep["threads"] == 1
    assert sweep["flags"] == "--iree-opt-level=O2 '--x=\"y'"
    assert spec.startswith(bundle.MARK) and '# file = "s02.mlir"' in spec
    assert "site 1, kernel_0; the same module as site 3" in spec


def test_the_script_calls_the_tools_with_the_files_of_a_site(tmp_path) -> None:
    (tmp_path / "repro.sh").write_text(bundle.repro(text(made(TENSORS), made("no capture", 1))))
    for name in ("s01.mlir", "s01.out0.bin"):
        (tmp_path / name).write_text("right")
    tools = tmp_path / "tools"
    tools.mkdir()
    bodies = {
        "iree-compile": '; for i; do :; done; echo code > "$i"',
        "iree-run-module": "; printf $GIVES > s01.got.out0.bin",
    }
    for name, body in bodies.items():
        (tools / name).write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@" >> calls{body}\n')
        (tools / name).chmod(0o755)

    def run(*words: str, gives: str = "right") -> subprocess.CompletedProcess[str]:
        path = f"{tools}:/usr/bin:/bin"
        return subprocess.run(
            ["sh", tmp_path / "repro.sh", *words], env={"PATH": path, "GIVES": gives}, capture_output=True, text=True
        )

    assert run("run").stdout == "s01: the same bits as expected\n"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert "--a=b c" in calls and "--input=4x8xf32=@s01.in0.bin" in calls and "--input=i64=@s01.in1.bin" in calls
    assert "other bits than expected" in run("run", "s01", gives="wrong").stdout
    assert "--expected_output=4xf32=@s01.out0.bin" in (tmp_path / "calls").read_text()
    unknown = run("run", "s02")
    assert unknown.returncode == 2 and "s02: no such site; there are: s01" in unknown.stderr
    assert run().returncode == 2


def test_types_of_a_function_that_takes_buffers_are_those_that_it_declares() -> None:
    declared = "sync func @main(%input0: index, %input1: tensor<?x8xf32>) -> (%output0: tensor<8xf32>, %output1: i32)"
    bound = f'attributes {{iree.abi.stub, iree.reflection = {{iree.abi.declaration = "{declared}"}}}}'
    text = f"  util.func public @main(%arg0: index, %arg1: !hal.buffer_view) -> (!hal.buffer_view, i32) {bound} {{\n"
    assert functions.declarations(text) == {"main": functions.Declaration(("index", "?x8xf32"), ("8xf32", "i32"))}
