"""Tests of lab/report."""
