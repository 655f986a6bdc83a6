"""What a scenario is."""
