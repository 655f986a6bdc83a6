"""Provider `ssh`: hosts are machines that exist, named in an inventory file."""

from cephlab.lab.providers.ssh.provider import SshProvider

__all__ = ["SshProvider"]
