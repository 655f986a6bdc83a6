"""Guests that a host of the lab runs itself: QEMU, whose disk is an RBD image through its own librbd driver."""
