"""What is done to a cluster so that it can be judged."""
