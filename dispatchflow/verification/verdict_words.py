"""The words of a verdict, in a separate file because `verdict` imports numpy."""

VERIFICATIONS = ("equal", "within bound", "different", "mistrusted", "not compared", "not verified")
PASSED = ("equal", "within bound")
