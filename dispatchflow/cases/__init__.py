"""Define cases and their parts, users' modules, and known failures. No module here runs a tool."""
