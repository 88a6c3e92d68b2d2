"""Combine the packages that this one imports, for one command in one user directory (docs/layout.md)."""
