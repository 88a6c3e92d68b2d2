"""Whole programs: their sites, and the way back from each to the operations that the user wrote. Pure."""
