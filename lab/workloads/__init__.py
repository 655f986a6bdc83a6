"""Workloads that are run on a cluster so that it can be judged."""
