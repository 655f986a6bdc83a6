"""Tests of lab/telemetry."""
