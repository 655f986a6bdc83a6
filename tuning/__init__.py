"""Hardware profiles, tuning profiles, the model and the limits: pure, reads only its own files."""
