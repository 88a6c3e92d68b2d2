"""The rows of cases and of sites, and the Parquet files of these rows."""
