"""Provider `container`: nodes as containers of Docker or Podman, through testcontainers."""

from cephlab.lab.providers.container.provider import ContainerProvider

__all__ = ["ContainerProvider"]
