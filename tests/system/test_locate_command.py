"""`doit locate` finds the sites whose results are wrong.

They are wrong because of an error that the tests plant in the compiler, or because of the Vulkan driver lavapipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import lavapipe
from support.project import REPOSITORY, Project
from support.tools import QUESTIONS, Outcome, compiler_folder, toolchain

pytestmark = pytest.mark.iree

WRONG_COMPILER = f"""\
case "$*" in
{QUESTIONS}|*backends=vmvx*|*--compile-from=hal*|*--compile-to=flow*|*--compile-to=dispatch-creation*)
  exec "$real" "$@" ;;
esac
begin= flags= rest= output=
for word in "$@"; do
  case "$output$word" in
  -) ;;
  -o) output=of ;;
  of*) output= rest="$rest -o $word" ;;
  --compile-from=*) begin=$word ;;
  --compile-to=*|--emit-mlir-bytecode|--iree-hal-dump*) rest="$rest $word" ;;
  *) flags="$flags $word" ;;
  esac
done
"$real" - $flags $begin --compile-to=stream --mlir-print-debuginfo -o planted.mlir || exit
sed 's/1\\.234500e+03/9.000000e+00/g' planted.mlir | "$real" - $flags $rest --compile-from=stream
"""
"""A script that replaces the compiler: it changes the constant 1234.5 to 9 after the phase `stream`.

When it compiles for vmvx, the script changes nothing."""

SITES = 10


def chain(*wrong: int) -> str:
    """Return a program of ten sites, each of which multiplies two matrices and adds a constant.

    In the sites whose numbers are in `wrong`, the constant is 1234.5, which `WRONG_COMPILER` changes to 9."""
    lines = []
    for site in range(1, SITES + 1):
        number = "1234.5" if site in wrong else "0.5"
        lines.append(f"""
  %m{site} = linalg.matmul ins(%x{site - 1}, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %c{site} = arith.constant dense<{number}> : tensor<4x8xf32>
  %x{site} = arith.addf %m{site}, %c{site} : tensor<4x8xf32>""")
    return f"""func.func @main(%x0: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>{"".join(lines)}
  return %x{SITES} : tensor<4x8xf32>
}}
"""


@pytest.fixture(scope="module")
def wrong_compiler(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tools")
    found = toolchain(folder, iree_compile=WRONG_COMPILER)
    package = compiler_folder().parent
    for path in package.iterdir():  # the compiler's Python bindings
        if path.name != "_mlir_libs":
            (folder / "iree/compiler" / path.name).symlink_to(path)
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("locate") / "p")


def located(project: Project, compiler: str, *wrong: int) -> Outcome:
    (project.root / "chain.mlir").write_text(chain(*wrong))
    return project.doit(
        "locate", "file=chain.mlir", "inputs=4x8xf32;8x8xf32=0.125", "threads=1", "reference=vmvx", PYTHONPATH=compiler
    )


def words_of(found: Outcome) -> dict[int, str]:
    rows = re.findall(r"^ *(\d+) +\S+  (right|WRONG|doubtful|not compared) ", found.out, re.MULTILINE)
    return {int(site): word for site, word in rows}


def test_two_wrong_sites_of_ten_are_found_and_nothing_runs_twice(project: Project, wrong_compiler: str) -> None:
    found = located(project, wrong_compiler, 3, 8)
    assert found.code == 1, found
    assert "site 3 is wrong, the first of 2; also wrong: site 8\n" in found.out, found
    assert words_of(found) == {site: "WRONG" if site in (3, 8) else "right" for site in range(1, SITES + 1)}
    assert "linalg.matmul chain.mlir:" in found.out and "arith.addf chain.mlir:" in found.out
    assert "32 of 32 elements are wrong" in found.out
    assert "sites=3 out=site3" in found.out
    before = project.query("select count(*) from record")
    assert located(project, wrong_compiler, 3, 8).out == found.out
    assert project.query("select count(*) from record") == before


def test_another_reference_is_named_if_a_site_does_not_compile_for_the_default_one(project: Project) -> None:
    found = project.doit("locate", "operation=matmul", "m=8", "n=8", "k=8", "dtype=f16", "threads=1")
    assert found.code == 1 and "it does not compile for the reference" in found.out, found
    assert re.search(r"^Try reference=(?!vmvx)\S+, for which site 1 compiles\.$", found.out, re.MULTILINE), found


@pytest.mark.slow
@pytest.mark.parametrize("site", range(1, SITES + 1))
def test_a_wrong_site_is_found_at_every_place(site: int, project: Project, wrong_compiler: str) -> None:
    found = located(project, wrong_compiler, site)
    assert found.code == 1 and f"site {site} is wrong\n" in found.out, found
    assert [place for place, word in words_of(found).items() if word == "WRONG"] == [site]


@pytest.mark.slow
def test_a_right_program_has_no_wrong_site(project: Project, wrong_compiler: str) -> None:
    found = located(project, wrong_compiler)
    assert found.code == 0 and found.out.startswith("no site is wrong\n"), found
    assert set(words_of(found).values()) == {"right"} and len(words_of(found)) == SITES


@pytest.mark.slow
def test_the_reference_is_compiled_without_the_configurations_of_a_tuning(project: Project) -> None:
    case = ("operation=matmul", "m=16", "n=16", "k=16", "threads=1", "tuning=double_tiling_8x8_4x4x4")
    found = project.doit("locate", *case)
    assert found.code == 0 and words_of(found) == {1: "right"}, found


@pytest.mark.slow
def test_a_wrong_program_without_a_wrong_site_is_reported(project: Project) -> None:
    (project.root / "right.mlir").write_text(chain())
    (project.root / "zeros.bin").write_bytes(bytes(4 * 8 * 4))
    found = project.doit(
        "locate", "file=right.mlir", "inputs=4x8xf32;8x8xf32=0.125", "expected=4x8xf32=@zeros.bin", "threads=1"
    )
    assert found.code == 0, found
    assert "the case is wrong: 32 elements of result 0 are wrong" in found.out, found
    assert "\nno single site is wrong: accumulated error or the host program\n" in found.out, found


@pytest.mark.slow
def test_the_wrong_convolution_of_lavapipe_is_found(tmp_path: Path) -> None:
    try:
        vulkan = lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")
    sizes = {"n": 1, "h": 16, "w": 16, "c": 8, "kh": 3, "kw": 3, "padding": 1, "layout": "nchw_chw"}
    case = [f"{name}={value}" for name, value in sizes.items()]
    project = Project.make(tmp_path / "p")
    found = project.doit("locate", "operation=depthwise_conv2d", *case, "target=vulkan", **vulkan)
    assert found.code == 1, found
    assert "the case is wrong: " in found.out and "\nsite 2 is wrong\n" in found.out, found
    assert "computes   linalg.depthwise_conv_2d_nchw_chw" in found.out
    assert words_of(found) == {1: "right", 2: "WRONG"}
