"""Combine the other packages into what one command does in one user directory; see docs/layout.md."""
