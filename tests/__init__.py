"""Tests of the lab itself."""
