"""Tests of lab/spec."""
