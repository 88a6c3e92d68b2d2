"""A user's module is linked again after a change of an object file that the module names."""

import platform
import shutil
import subprocess

import pytest
from support.project import Project

from dispatchflow.cases import module
from dispatchflow.cases.module import File, Module
from dispatchflow.errors import ToolError
from dispatchflow.keys import digest_of
from dispatchflow.verification import module_data

WRITTEN = r"""
#a = #hal.executable.object<{path = "sub/k \"1\".o"}>
#b = #hal.executable.object<{ path="\C3\A4.bc" }>
#c = #hal.executable.object<{path = "inline.o", data = dense<[1]> : vector<1xi8>}>
#d = #other.thing<{path = "none.o"}>
"""


def test_object_paths_are_unescaped_and_embedded_data_has_no_path():
    assert module.objects(WRITTEN) == ['sub/k "1".o', "ä.bc"]
    named = module.with_objects(WRITTEN, lambda path: f"{len(path)}.o")
    assert module.objects(named) == ["11.o", "4.o"]
    assert '"inline.o"' in named


def test_a_named_file_is_renamed_to_its_digest_and_an_unknown_file_is_an_error(tmp_path):
    (tmp_path / "k.o").write_bytes(b"code")
    file = File(str(tmp_path / "k.o"), digest_of(b"code"))
    program = Module(file, "t", "main", objects=(("k.o", file),))
    found, text = module_data.objects(program, '#hal.executable.object<{path = "k.o"}>')
    assert found == {f"{file.digest}.o": b"code"}
    assert text == f'#hal.executable.object<{{path = "{file.digest}.o"}}>'
    with pytest.raises(ToolError, match=r"other\.o, which the module names"):
        module_data.objects(program, '#hal.executable.object<{path = "other.o"}>')
    for option in ("patterns-file=/a.mlir", "library-file-name=a", "transform-spec-path=a"):
        with pytest.raises(ToolError, match=f"a pass that reads a file, {option}"):
            module_data.objects(program, f'{{preprocessing_pipeline = #util.preprocessing_pipeline<"b{{{option}}}">}}')
    module_data.objects(program, '{preprocessing_pipeline = #util.preprocessing_pipeline<"iree-preprocessing-x">}')


CUSTOM = """\
#t = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "generic", cpu_features = "", \
data_layout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128", \
max_stack_allocation_size = 32768 : i64, native_vector_size = 16 : i64, \
target_triple = "x86_64-unknown-unknown-eabi-elf"}>
module attributes {hal.device.targets = [#hal.device.target<"local", [#t]> : !hal.device]} {
  stream.executable private @ex attributes {\
hal.executable.objects = #hal.executable.objects<{#t = [#hal.executable.object<{path = "k.o"}>]}>} {
    stream.executable.export public @d workgroups() -> (index, index, index) {
      %c1 = arith.constant 1 : index
      stream.return %c1, %c1, %c1 : index, index, index
    }
    builtin.module {
      func.func private @scaled(f32) -> f32 attributes {hal.import.static}
      func.func @d(%b0: !stream.binding, %b1: !stream.binding) {
        %c0 = arith.constant 0 : index
        %i = stream.binding.subspan %b0[%c0] : !stream.binding -> memref<1xf32>
        %o = stream.binding.subspan %b1[%c0] : !stream.binding -> memref<1xf32>
        %x = memref.load %i[%c0] : memref<1xf32>
        %y = func.call @scaled(%x) : (f32) -> f32
        memref.store %y, %o[%c0] : memref<1xf32>
        return
      }
    }
  }
  "func.func"() <{function_type = (tensor<1xf32>) -> tensor<1xf32>, sym_name = "main"}> ({
  ^bb0(%a: tensor<1xf32>):
    %r = flow.dispatch @ex::@d(%a) : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%r) : (tensor<1xf32>) -> ()
  }) : () -> ()
}
"""


@pytest.mark.iree
@pytest.mark.skipif(
    shutil.which("cc") is None or platform.machine() != "x86_64", reason="the custom dispatch is x86-64 code from C"
)
def test_a_recompiled_object_is_linked_again_and_a_missing_object_is_a_failure(tmp_path):
    folder = tmp_path / "specs/ir"
    words = 'file = "ir/custom.mlir"\ninputs = "1xf32=1"\nexpected = "ir/two.bin"\nthreads = 1\n'
    project = Project.make(tmp_path, f'[[sweep]]\noperation = "module"\n{words}')
    folder.mkdir()
    (folder / "custom.mlir").write_text(CUSTOM)
    (folder / "two.bin").write_bytes(b"\0\0\0\x40")

    def made_with(factor):
        (folder / "k.c").write_text(f"float scaled(float x) {{ return x * {factor}; }}")
        flags = ("-O2", "-c", "-fno-pic", "-ffreestanding", "-mno-red-zone")
        subprocess.run(["cc", *flags, "k.c", "-o", "k.o"], cwd=folder, check=True)

    made_with(2)
    outcome = project.doit("verify")
    assert outcome.code == 0, str(outcome)
    assert "1 case: 1 emitted, 1 compiled, 1 verified in " in outcome.out  # the executable's own function is no case
    script = tmp_path / "build/module_custom_main_default@llvm-cpu-1t/repro.sh"
    assert "same bytes" in subprocess.run([script, "compile"], capture_output=True, text=True, check=True).stdout
    assert "1 of 1 run again and compared\nall sound" in project.doit("store", "check").out
    assert "up to date (1 reused)" in project.doit("verify").out
    made_with(3)
    outcome = project.doit("verify")
    assert outcome.code == 1
    assert "1 element of result 0 is wrong; worst at [0]: got 3.0, expected 2.0" in outcome.out
    (folder / "k.o").unlink()
    outcome = project.doit("verify")
    assert outcome.code == 1
    assert "k.o, which the module names as an object, cannot be read" in outcome.out
    made_with(2)
    assert "up to date (1 reused)" in project.doit("verify").out
