"""Tests of lab/ceph."""
