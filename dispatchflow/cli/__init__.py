"""The command line: terminal, signals and exit codes. Only this package imports doit or prints."""
