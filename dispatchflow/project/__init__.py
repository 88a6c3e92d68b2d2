"""One directory of a user and one invocation: the composition of all other rooms."""
