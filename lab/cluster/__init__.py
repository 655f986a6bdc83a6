"""Clusters: raised, loaded again, inspected and removed."""
