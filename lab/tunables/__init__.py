"""Settings of machines and clusters that can be checked, changed, and restored exactly as they were."""
