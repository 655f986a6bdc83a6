"""What everything else stands on: errors, processes, clocks, homes, runs."""
