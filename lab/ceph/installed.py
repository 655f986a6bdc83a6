"""Asks a host's own programs which Ceph they are."""

from __future__ import annotations

import re

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.providers.host import Host

_SAID = re.compile(r"ceph version (\S+) \(\w+\) (\w+)")
_LOOK_S = 60.0


def installed(host: Host, patience: float) -> tuple[str, str]:
    """Release and version, as `squid` and `19.2.1`."""
    # `ceph` would say the same, but it needs a Python interpreter.
    argv = ["ceph-osd", "--version"]
    said = run_tool(host, argv, timeout_s=_LOOK_S * patience).stdout
    match = _SAID.search(said)
    if match is None:
        raise LabBroken(f"{host.name} does not say which Ceph it has", f"{' '.join(argv)}: {said.strip()}")
    return match[2], match[1]
