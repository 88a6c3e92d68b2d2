"""The command line: the only package that imports doit, prints, and chooses exit codes."""
