"""How the lab handles Ceph: keys, configuration, typed status, and one long-lived client per node."""
