"""Layers between a program and an RBD image on a host with its own kernel: krbd, device mapper, file system."""
