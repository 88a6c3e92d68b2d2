"""Combine the other packages into what a command does in a user's directory; see docs/layout.md."""
