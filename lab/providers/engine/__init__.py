"""Shared by providers whose nodes run in an engine: containers of Docker and Podman, instances of LXD."""
