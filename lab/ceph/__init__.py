"""Ceph as the lab sees it: keys, configuration, typed status, and one long-lived client a node."""
