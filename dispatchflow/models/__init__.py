"""Describe the sites of programs, and the source operations that each site computes.

A site is a place of a program that launches a dispatch. Python modules whose names begin with `_` are scripts or
helpers of scripts. Each script runs as a process of its own."""
