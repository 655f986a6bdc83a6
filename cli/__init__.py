"""The `cephlab` command."""
