"""Compares what daemons run inside containers and guests with the image that these were made from."""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.images.image import LINK, SEALED, Image
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.clusterspec import Capability

_COMPARED = re.compile(
    r"usr/lib/[^/]+/(ceph/(erasure-code|compressor)/|ceph/libceph-common\.so|rados-classes/|lib(rados|rbd|cephfs)\.so)"
    r"|usr/lib/[^/]+/(ld-linux[^/]*|lib(c|m|stdc\+\+|gcc_s|tcmalloc|aio|crypto|ssl|z|lz4|snappy|zstd))\.so"
    r"|usr/lib/python3/dist-packages/(rados|rbd|cephfs|rgw)\.[^/]*so$"
    r"|usr/bin/python3\.\d+$"
)
_SHOWN = 5
_SUM_S = 120.0
"""For a host, before patience: about 110 MiB, which an emulated one sums up in some seconds."""


def require_copies(cluster: OwnCluster) -> None:
    """LabBroken, with the first files, where a host would run another program or library than its image has.

    Looked at are the programs of its daemons, Ceph's libraries, the C and C++ runtime, compressors and ciphers, and
    Python. Processes of this machine run from the cache's own tree, which is compared itself; of a pulled image nobody
    noted what it held.
    """
    # Nodes without a network of their own are processes of this machine, with its files.
    if Capability.OWN_NETWORK not in cluster.provider.capabilities():
        return
    with ThreadPoolExecutor() as pool:
        by_host = list(pool.map(lambda host: _others(cluster, host), cluster.hosts.values()))
    other = [line for lines in by_host for line in lines]
    if other:
        programs = how_many(len(other), "program inside the nodes is", "programs inside the nodes are")
        raise LabBroken(
            f"{programs} not of their image",
            "\n".join(other[:_SHOWN]),
            "remove the copies: `cephlab image rm`, and the engine's image of that name",
        )


def _others(cluster: OwnCluster, host: Host) -> list[str]:
    image = cluster.images.get(host.arch)
    if image is None or not image.contents.exists():
        return []
    wanted = watched(image, {daemon.argv[0] for daemon in cluster.daemons.values() if daemon.host.name == host.name})
    paths = [str(host.root / path) for path in wanted]
    said = host.run(["sha256sum", *paths], timeout_s=_SUM_S * cluster.patience, check=False).stdout
    return [f"{host.name}: {line}" for line in differing(wanted, dict(_sums(host, said)))]


def watched(image: Image, programs: set[str]) -> dict[str, str]:
    """Path below the root -> sha256, of programs and of the libraries that they load, in an image."""
    names = {PurePosixPath(program).name for program in programs}
    noted: Mapping[str, str] = json.loads(image.contents.read_text())
    return {
        path: held
        for path, held in noted.items()
        if not held.startswith((LINK, SEALED))
        and (_COMPARED.match(path) or (path.startswith("usr/bin/") and PurePosixPath(path).name in names))
    }


def _sums(host: Host, said: str) -> Iterator[tuple[str, str]]:
    for line in said.splitlines():
        held, _, path = line.partition("  ")
        yield str(PurePosixPath(path).relative_to(host.root)), held


def differing(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    """Files that are not what they were, in words."""
    for path in sorted(wanted):
        if path not in found:
            yield f"{path} is not there"
        elif found[path] != wanted[path]:
            yield f"{path} has changed"
