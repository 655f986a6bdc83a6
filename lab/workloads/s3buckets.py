"""Buckets for the length of a block, removed also after an error, an interruption or the loss of a client's machine."""

import http.client
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from cephlab.lab.base.errors import LabBroken, LabError, LeftBehind, end_if_interrupted
from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import s3load
from cephlab.lab.workloads.s3_load_program import CLEAN, EXIST, KEY, existing
from cephlab.lab.workloads.s3_program import S3Connection
from cephlab.lab.workloads.s3fleet import Fleet, named, run_together
from cephlab.lab.workloads.s3load import Entrance, S3Load

AGAIN = 2
"""Other client machines that try if a client's own cannot."""
HERE_S = 60.0
"""Timeout of one request from this machine."""
LINES = 8
"""Connections from this machine."""
PAGE = "1000"


@contextmanager
def new_buckets(
    cluster: Cluster, loads: Sequence[tuple[Host, S3Load]], entrances: Sequence[Entrance], *, timeout_s: float
) -> Iterator[set[str]]:
    """Inside the block loads may make their buckets, none of which may exist yet. They are removed however it ends.

    Yields a set for the loads that were refused all the same (see `refused`): somebody else has just made their bucket.
    """
    looks = [(host, replace(load, phases=())) for host, load in loads]
    looked = run_together(looks, entrances, lead_s=0.0, timeout_s=timeout_s)
    if looked.lost:
        lines = "\n".join(f"{name}: {why}" for name, why in looked.lost.items())
        who = how_many(len(looked.lost), "S3 client")
        raise LabBroken(f"{who} cannot make a new bucket", lines, "if a killed run left these buckets, remove them")
    foreign: set[str] = set()
    try:
        yield foreign
    finally:
        if not isinstance(cluster, AttachedCluster):
            end_if_interrupted()
        mine = [(host, load) for host, load in loads if load.bucket not in foreign]
        if mine:
            remove_buckets(mine, entrances, timeout_s=timeout_s)


def refused(fleet: Fleet, loads: Sequence[tuple[Host, S3Load]]) -> set[str]:
    """The loads, by the prefix of their buckets, that found a bucket which is not theirs."""
    clients = named(loads)
    return {clients[name][1].bucket for name, why in fleet.lost.items() if EXIST in why}


def remove_buckets(loads: Sequence[tuple[Host, S3Load]], entrances: Sequence[Entrance], *, timeout_s: float) -> None:
    """Remove the buckets of loads, each from its own machine, else from another one, else from this machine.

    Goes on after an error. LeftBehind names what is left, why, and the command that removes it. timeout_s: of one try.
    """
    left = {load.bucket: ["its removal was interrupted"] for _, load in loads}
    hosts = list({host.name: host for host, _ in loads}.values())
    remove = partial(_why_left, hosts=hosts, entrances=entrances, timeout_s=timeout_s)
    try:
        with ThreadPoolExecutor(max_workers=len(loads), thread_name_prefix="buckets") as workers:
            for (_, load), why in zip(loads, workers.map(remove, loads), strict=True):
                left[load.bucket] = why
    finally:
        reasons = {bucket: left[load.bucket] for _, load in loads for bucket in names_of(load) if left[load.bucket]}
        if reasons:
            raise LeftBehind(
                f"could not remove {how_many(len(reasons), 'bucket')}",
                "\n".join(f"{bucket}: {'; '.join(why)}" for bucket, why in reasons.items()),
                "; ".join(f"radosgw-admin bucket rm --bucket={bucket} --purge-objects" for bucket in reasons),
            )


def names_of(load: S3Load) -> list[str]:
    """Names of a load's buckets."""
    return [f"{load.bucket}{number}" for number in range(load.buckets)]


def _why_left(
    filled: tuple[Host, S3Load], *, hosts: Sequence[Host], entrances: Sequence[Entrance], timeout_s: float
) -> list[str]:
    """Remove the buckets of one load; what went wrong on each machine if that fails on all, else nothing."""
    own, load = filled
    others = [host for host in hosts if host is not own][:AGAIN]
    errors: list[str] = []
    for turn, host in enumerate((own, *others)):
        try:
            # The gateway that is asked first may be the trouble.
            doors = (*entrances[turn % len(entrances) :], *entrances[: turn % len(entrances)])
            s3load.run(host, doors, replace(load, phases=(CLEAN,)), timeout_s=timeout_s)
        except LabError as error:
            errors.append(f"from {host.name}: {error.what}")
        else:
            return []
    for entrance in entrances:
        try:
            for bucket in names_of(load):
                remove_from_here(entrance, bucket)
        except (OSError, http.client.HTTPException) as error:
            errors.append(f"from this machine through {entrance.address}: {error}")
        else:
            return []
    return errors


def remove_from_here(entrance: Entrance, bucket: str) -> None:
    """Delete all objects of a bucket, then the bucket. OSError or HTTPException if a request fails."""
    config = {
        "address": entrance.address,
        "access_key": entrance.access_key,
        "secret_key": entrance.secret_key,
        "timeout_s": HERE_S,
    }
    lines = [S3Connection(config) for _ in range(LINES)]
    if not existing(lines[0], [bucket]):
        return
    with ThreadPoolExecutor(max_workers=LINES) as workers:
        while names := _page(lines[0], bucket):
            shares = [names[first::LINES] for first in range(LINES)]
            list(workers.map(partial(_delete, bucket), lines, shares))
    lines[0].ask("DELETE", f"/{bucket}")


def _page(line: S3Connection, bucket: str) -> list[str]:
    """Names of at most PAGE objects of a bucket."""
    answer = line.send("GET", f"/{bucket}", {"list-type": "2", "max-keys": PAGE})
    if answer.code:
        raise OSError(f"listing {bucket}: {answer.code}")
    return [name.decode() for name in KEY.findall(answer.body)]


def _delete(bucket: str, line: S3Connection, names: Sequence[str]) -> None:
    for name in names:
        line.ask("DELETE", f"/{bucket}/{name}")
