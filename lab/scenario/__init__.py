"""Defines scenarios: their record, their topology, and what they must have seen."""
