"""Tests of Ceph: one folder per capability."""
