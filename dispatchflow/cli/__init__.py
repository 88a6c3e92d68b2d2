"""The command line, the terminal, signals and exit codes. No other package imports doit or prints."""
