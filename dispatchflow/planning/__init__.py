"""Turn specs and command lines into a plan: the cases to run, and the combinations to skip."""
