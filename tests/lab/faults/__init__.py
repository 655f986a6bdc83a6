"""Tests of lab/faults."""
