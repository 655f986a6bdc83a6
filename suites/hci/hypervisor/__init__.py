"""Guests that a host of the lab runs itself, in QEMU with RBD images as disks through its own librbd driver."""
