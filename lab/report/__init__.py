"""Pages made from an archive."""
