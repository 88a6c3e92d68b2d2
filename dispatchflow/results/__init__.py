"""The rows of cases and sites, and the Parquet files that contain them."""
