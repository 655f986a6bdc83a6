"""Provider `local`: nodes as processes on loopback addresses of their own."""

from cephlab.lab.providers.local.provider import LocalProvider

__all__ = ["LocalProvider"]
