"""Pages made of an archive."""
