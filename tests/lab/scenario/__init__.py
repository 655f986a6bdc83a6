"""Tests of lab/scenario."""
