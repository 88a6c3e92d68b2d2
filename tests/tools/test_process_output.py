"""A program's output is stored up to a limit.

It is shortened and loses terminal sequences when it is shown."""

from pathlib import Path

import pytest
from support.programs import SHELL, shell

from dispatchflow.errors import ToolError
from dispatchflow.tools import processes
from dispatchflow.tools.processes import Command, shortened

pytest_plugins = ["support.programs"]


def test_complete_output_goes_to_files(folder):
    assert shell(folder, "cat; echo wrong >&2", stdin=SHELL).code == 0
    assert (folder / "stdout").read_bytes() == Path(SHELL).read_bytes()
    assert (folder / "stderr").read_text() == "wrong\n"


PRINTS = "i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done"


def test_beginning_and_end_of_long_output_are_kept(folder):
    shell(folder, PRINTS, stderr="whole")
    outcome = shell(folder, PRINTS, output_limit_bytes=2000)
    whole, kept = (folder / "whole").read_bytes(), (folder / "stderr").read_bytes()
    assert outcome.code == 0
    assert (whole.startswith(b"line 0\n"), whole.endswith(b"line 19999\n")) == (True, True)
    assert kept == whole[:1000] + f"\n… {len(whole) - 2000} bytes left out …\n".encode() + whole[-1000:]


def test_a_tool_that_never_stops_printing_fills_nothing(folder):
    outcome = shell(folder, "exec cat /dev/zero", time_limit_s=1)
    assert outcome.timed_out
    assert outcome.wall_s < 5
    assert (folder / "stdout").stat().st_size < 33 << 20
    asked, text, _ = processes.answer(Command((SHELL, "-c", "exec cat /dev/zero"), folder, time_limit_s=1))
    assert asked.timed_out
    assert len(text) < 5 << 20  # each byte is shown as four characters


def test_output_that_cannot_be_written_is_an_error(folder):
    with pytest.raises(OSError, match="No space left on device"):
        shell(folder, "echo 1", stdout="/dev/full")
    assert shell(folder, "exit 4").code == 4


def test_stdout_is_overwritten_and_stderr_is_appended_to(folder):
    for word in ("one", "two"):
        shell(folder, f"echo {word}; echo {word} >&2", stdout="out", stderr="err")
    assert (folder / "out").read_text() == "two\n"
    assert (folder / "err").read_text() == "one\ntwo\n"


def test_long_output_is_shown_shortened(tmp_path):
    path = tmp_path / "stderr"
    assert shortened(path) == ""
    path.write_bytes(b"short \xff\n")
    assert shortened(path) == "short \N{REPLACEMENT CHARACTER}"
    path.write_text("a" * 5000 + "z" * 5000)
    shown = shortened(path, limit=100)
    assert shown == "a" * 50 + "\n… 9900 characters left out …\n" + "z" * 50


def test_terminal_sequences_are_not_shown_and_stay_in_the_log(tmp_path):
    said = "error:\t\x1b[1;31mevil\x1b[0m \x1b]0;title\x07red\x9b2J\rover\b\n\x1b[3"
    (tmp_path / "stderr").write_bytes(said.encode())
    assert shortened(tmp_path / "stderr") == "error:\tevil red\\x9b2J\\x0dover\\x08\n\\x1b[3"
    assert (tmp_path / "stderr").read_bytes().decode() == said
    error = ToolError("no block\x1b[31m", {"found": "\x1b[31mred\x1b", "size": 3})
    assert (error.problem, str(error).splitlines()) == (
        r"no block\x1b[31m",
        [r"no block\x1b[31m:", r"  found  \x1b[31mred\x1b", "  size   3"],
    )
