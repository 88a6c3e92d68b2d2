"""Describe the sites of programs, and the source operations that each site computes.

A site is a place of a program that launches a dispatch. Python modules of this package whose names begin with `_` are
scripts, which run as processes of their own, or helpers of these scripts. The other modules have no side effects."""
