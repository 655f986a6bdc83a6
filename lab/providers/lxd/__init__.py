"""Provider `lxd`: nodes as LXD instances, on this machine or on several, through pylxd."""

from cephlab.lab.providers.lxd.provider import LxdProvider

__all__ = ["LxdProvider"]
