"""Objects by digest, records of actions, and the locks on both."""
