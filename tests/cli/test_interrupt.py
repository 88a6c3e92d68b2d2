"""A signal ends the command without a traceback, even while Python executes a `class` statement."""

from __future__ import annotations

import subprocess
import sys

from support.tools import environment

INTERRUPTED = """
import signal
from pathlib import Path
from dispatchflow.cli import main

class Attribute:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)

def read(argv):
    class Owner:
        attribute = Attribute()

main._interruptible()
main.read = read
main.run(Path("dodo.py"), [])
"""


def test_a_signal_while_a_class_gets_its_attributes_ends_the_command() -> None:
    # Python 3.11 turns every exception in `__set_name__` into a RuntimeError, also a KeyboardInterrupt.
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], env=environment({}), capture_output=True, text=True)

    said = "\ninterrupted; what was finished is recorded, the next run goes on\n"
    assert (ended.returncode, ended.stderr) == (130, said)
