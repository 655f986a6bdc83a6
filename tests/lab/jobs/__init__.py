"""Tests of cephlab.lab.jobs, and the papers' plans that the shipped jobs were made of."""
