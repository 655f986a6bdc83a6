"""Guests that a lab host runs in QEMU, with RBD images as disks through QEMU's librbd driver."""
