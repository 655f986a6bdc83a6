"""A cluster: raised, reloaded, looked at and removed."""
