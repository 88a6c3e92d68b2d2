"""The sites of programs and the source operations that each site computes.

A site is a place of a program that launches a dispatch. The modules have no side effects. The scripts, whose names
begin with `_`, run as processes of their own."""
