"""Tests of lab/providers."""
