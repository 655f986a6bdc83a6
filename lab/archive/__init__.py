"""Archives of runs on disk, and statistics over many runs."""
