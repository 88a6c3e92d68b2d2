"""Start processes, find toolchains and devices, and read facts about this machine."""
