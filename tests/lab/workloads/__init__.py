"""Tests of lab/workloads."""
