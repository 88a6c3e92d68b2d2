"""One user directory and one invocation: this room connects all rooms below it."""
