"""Tests of lab/cluster."""
