"""Measures the cost of an operation by role and resource, from the accounting of the kernel."""
