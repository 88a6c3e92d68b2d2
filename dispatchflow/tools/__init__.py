"""Processes, toolchains, devices and this machine."""
