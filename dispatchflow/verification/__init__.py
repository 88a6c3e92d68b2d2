"""Inputs by recipe, expected results, and the verdict on a program's results."""
