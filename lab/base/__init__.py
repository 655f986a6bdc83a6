"""The base of all other packages: errors, processes, clocks, homes, runs."""
