"""Rows → text, CSV, JSON lines, Markdown. Pure: rows in, a string out."""
