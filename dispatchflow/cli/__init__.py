"""The command line: the only room that knows doit, terminals, signals and exit codes."""
