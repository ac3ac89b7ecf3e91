"""Names of the original's operators."""
