"""Tests of lab/services."""
