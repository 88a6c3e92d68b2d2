"""Connect all packages below this one, for one command in one user directory (docs/layout.md)."""
