"""Objects by digest, records of actions, and the locks of both."""
