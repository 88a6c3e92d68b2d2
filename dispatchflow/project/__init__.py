"""Combine the other packages to carry out the commands in a user's directory; see docs/layout.md."""
