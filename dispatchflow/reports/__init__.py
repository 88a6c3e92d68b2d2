"""Reports: pure functions from rows to text, CSV, JSON lines or Markdown."""
