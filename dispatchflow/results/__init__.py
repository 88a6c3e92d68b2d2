"""The rows of cases, and the Parquet files that keep them."""
