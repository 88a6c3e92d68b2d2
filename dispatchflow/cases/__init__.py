"""Dispatches, cases, users' modules and known failures. Pure."""
