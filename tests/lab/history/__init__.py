"""Tests of lab/history."""
