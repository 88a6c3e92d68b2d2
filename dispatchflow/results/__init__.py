"""The rows of cases and of sites (places that launch a dispatch), and the Parquet files of these rows."""
