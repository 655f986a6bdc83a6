"""Records what happened in a run."""
