"""Turn the words of specs and command lines into the plan: cases and skips."""
