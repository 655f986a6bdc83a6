"""Tests of lab/checks."""
