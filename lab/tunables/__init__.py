"""Settings of machines and clusters that can be looked at, changed, and put back exactly as they were."""
