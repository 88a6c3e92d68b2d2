"""Inputs, expected results and the verdict on what a program gave."""
