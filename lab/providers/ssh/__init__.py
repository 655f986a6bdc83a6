"""Provider `ssh`: hosts are existing machines, named in an inventory file."""

from cephlab.lab.providers.ssh.provider import SshProvider

__all__ = ["SshProvider"]
