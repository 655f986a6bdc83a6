"""Tests of lab/base."""
