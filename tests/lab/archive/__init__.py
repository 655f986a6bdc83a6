"""Tests of lab/archive."""
