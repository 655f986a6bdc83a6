"""Benchmarks: they measure and print, and fail only when a cluster does not come up."""
