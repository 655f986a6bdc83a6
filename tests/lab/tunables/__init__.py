"""Tests of lab/tunables."""
