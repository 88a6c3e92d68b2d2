"""Describe the sites of programs, and the source operations that each site computes.

A site is a place of a program that launches a dispatch. The Python modules of this package have no side effects, except
those whose names begin with `_`. These are scripts, which run as processes of their own, and their helpers."""
