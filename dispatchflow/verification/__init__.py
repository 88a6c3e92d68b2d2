"""Make inputs and expected results, and judge a program's results; see docs/verification.md."""
