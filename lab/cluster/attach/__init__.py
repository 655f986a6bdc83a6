"""An existing cluster, used as if the lab had made it. A guard refuses everything that is not on a list."""
