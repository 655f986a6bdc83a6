"""How Ceph gets onto hosts."""
