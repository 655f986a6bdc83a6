"""Layers between a program and an RBD image on a host with a kernel of its own: krbd, device mapper, a file system."""
