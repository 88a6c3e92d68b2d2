"""The words of a verdict. They stand apart from what gives it, which imports numpy."""

VERIFICATIONS = ("equal", "within bound", "different", "mistrusted", "not compared", "not verified")
PASSED = ("equal", "within bound")
