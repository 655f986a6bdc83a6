"""A finished run on disk, and attempts over many runs."""
