"""Nodes with a kernel of their own: what the `uml` and `qemu` providers share."""
