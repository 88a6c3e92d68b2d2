"""The state of a case → its row → Parquet."""
