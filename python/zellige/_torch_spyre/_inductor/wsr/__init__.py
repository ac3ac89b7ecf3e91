"""Where newer versions of the original keep some of its names."""
