"""The reason of a tool's failure is one line with the signal, the error message or the exit code."""

import pytest

from dispatchflow.engine.call import reason_of
from dispatchflow.tools.outcome import Outcome

CRASH = """\
Please report issues to https://github.com/iree-org/iree/issues and include the crash backtrace.
Stack dump:
0.\tProgram arguments: iree-compile -
Stack dump without symbol names (ensure you have llvm-symbolizer in your PATH):
0  libIREECompiler.so 0x00007fbc2215a0ab
26 iree-compile       0x00000000002016ae"""
TRANSLATION = (
    "cfg/a.mlir:2:2: error: failed to run translation of source executable to target executable for backend #hal"
)
STATUS = """\
c/runtime/src/iree/modules/hal/utils/buffer_diagnostics.c:191: INVALID_ARGUMENT; input0 element type mismatch; expected f32 \
(21000020) but have i32 (10000020); while invoking native function hal.buffer_view.assert; while calling import;\x20
[ 0] bytecode module@1:156 -; invoking function 'add'; `sync func @add(%input0: tensor<4xf32>) -> (%output0: tensor<4xf32>)`"""
CAUSE = "cfg/b.mlir:8:6: error: 'func.func' op failed to distribute"


@pytest.mark.parametrize(
    ("code", "stderr", "reason"),
    [
        (-11, CRASH, "died by SIGSEGV"),
        (-6, f"iree-compile: A.h:7: Assertion `a' failed.\n{CRASH}", "died by SIGABRT: iree-compile: A.h:7: Assertion `a' failed."),
        (-6, f"LLVM ERROR: no such thing\n{CRASH}", "died by SIGABRT: no such thing"),
        (-6, " #0 0x00007fbc2215a0ab llvm::sys::PrintStackTrace\n #1 0x00007fbc2215a0ab main", "died by SIGABRT"),
        (-9, "", "died by SIGKILL"),
        (1, "", "exit code 1"),
        (1, f"{TRANSLATION}\n  hal.executable\n{CAUSE}\n", "'func.func' op failed to distribute"),
        (1, f"{TRANSLATION}\n ^", TRANSLATION.partition("error: ")[2]),
        (1, STATUS, "INVALID_ARGUMENT; input0 element type mismatch; expected f32 (21000020) but have i32 (10000020)"),
        (1, "<vm>:0: FAILED_PRECONDITION; x > 0; ; invoking function 'f'; `sync func @f()`", "FAILED_PRECONDITION; x > 0"),
        (1, "all went well\nand then not", "and then not"),
    ],
)  # fmt: skip
def test_failure_is_reported_with_its_signal_and_cause_and_without_a_backtrace(code, stderr, reason):
    assert reason_of(Outcome(code, False, 1.0, 1.0, 0), stderr) == reason
