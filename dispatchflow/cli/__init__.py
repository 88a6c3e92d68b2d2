"""The command line, the terminal, signals and exit codes.

Only this package prints, and only it imports doit."""
