"""Words of specs and command lines → the plan: cases and skips."""
