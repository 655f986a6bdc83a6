"""What providers share whose nodes are kept by an engine: containers of Docker and Podman, instances of LXD."""
