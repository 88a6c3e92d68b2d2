"""What is compiled, verified and measured: dispatches, cases, modules, known failures. Pure."""
