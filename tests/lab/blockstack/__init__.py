"""Tests of lab/blockstack."""
