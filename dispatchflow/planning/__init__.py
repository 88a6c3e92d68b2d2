"""Turn specs and command lines into the plan: cases, and skips (combinations that are not possible)."""
