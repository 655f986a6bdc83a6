"""Tests of lab/images."""
