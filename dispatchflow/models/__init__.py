"""Describe the sites of programs, and the source operations that each site computes.

A site is a place of a program that launches a dispatch. Python modules whose names begin with `_` are scripts, which
run as processes of their own, or helpers of scripts."""
