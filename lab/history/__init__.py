"""What happened in a run, as it is written down."""
