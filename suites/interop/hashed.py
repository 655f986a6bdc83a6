"""Placement of objects by name: libraries, tools and OSDs of both architectures against the suite's own computation."""

import re
from collections.abc import Mapping, Sequence
from functools import partial

from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.edges import LENGTHS, NAME_BYTES, ODD_PG_NUM, PG_NUM, namespaces, texts
from cephlab.suites.interop.matrix import arch_of
from cephlab.suites.interop.name_hash import object_hash, rjenkins, stable_mod
from cephlab.suites.interop.sides import ArchSide, each, sides

NAMES = 3000
MAPPED = 300  # names that the monitors map, one command each
NAMESPACES = 60  # names in namespaces, one command each too
TOOLED = 4  # osdmaptool maps one name per process, and an emulated process takes half a second to start
LOOKED_UP = 24  # names that every OSD looks up
LIMIT_S = 60.0
KEY = "key"
_SHOWN = 3
_MAPPED = re.compile(r"-> (\d+\.[0-9a-f]+) -> \[([\d,]*)\]\s*$")

HASHES = """
import ctypes, sys
import rados  # loads libceph-common, wherever the image has it
f = ctypes.CDLL("libceph-common.so.2")._Z22ceph_str_hash_rjenkinsPKcj
f.restype, f.argtypes = ctypes.c_uint32, [ctypes.c_char_p, ctypes.c_uint]
for line in sys.stdin:
    key = bytes.fromhex(line)
    print(f(key, len(key)))
"""
"""Runs on a host under the image's Python: reads keys in hexadecimal, prints the hash that Ceph's library computes."""


def run(stage: Stage) -> None:
    """Check thousands of names with the libraries, and samples with the monitors, osdmaptool and every OSD."""
    cluster = stage.cluster
    names = texts(stage.rng, NAMES, NAME_BYTES)
    with sides(cluster, "hashed") as between, pools.pool(cluster, "hashed", pg_num=PG_NUM) as pool:
        for arch, hashes in each(between, partial(library_hashes, names=names, patience=cluster.patience)).items():
            wrong = [said(name) for name, got in zip(names, hashes, strict=True) if got != rjenkins(name.encode())]
            title = f"names that {arch} hashes differently"
            stage.recorder.observe(title, got=wrong[:_SHOWN], wanted=[], of=len(names))
        note_mapped(stage, pool, names)
        osdmap = cluster.client.command("mon", "osd getmap")
        sample = [name for name in longest_first(names) if "\n" not in name][:TOOLED]
        number = pool_id(cluster, pool)
        mapped = each(between, partial(map_names, osdmap=osdmap, pool=number, names=sample))
        note_tools(stage, number, sample, mapped)
        note_looked_up(stage, pool, [name for name in names if "/" not in name][:LOOKED_UP])


def longest_first(names: Sequence[str]) -> list[str]:
    """One name of each length of edges.LENGTHS, the longest first; then the rest."""
    return sorted(names[: len(LENGTHS)], key=lambda name: -len(name.encode())) + list(names[len(LENGTHS) :])


def said(name: str) -> str:
    """The length of a name and its first characters."""
    return f"{len(name.encode())} bytes, {name[:20]!r}"


def library_hashes(side: ArchSide, names: Sequence[str], patience: float) -> list[int]:
    """The hash of each name by an architecture's libceph-common, in one process."""
    keys = "".join(f"{name.encode().hex()}\n" for name in names).encode()
    printed = side.host.run(["python3", "-c", HASHES], stdin=keys, timeout_s=LIMIT_S * patience).stdout
    return [int(line) for line in printed.split()]


def pool_id(cluster: Cluster, pool: str) -> int:
    return int(pools.locate(cluster, pool, "any")["pool_id"])


def wanted_pg(pool: int, name: str, namespace: str = "") -> tuple[str, str]:
    """Raw PG and PG of an object, as `ceph osd map` prints them."""
    value = object_hash(name, namespace=namespace)
    return f"{pool}.{value:x}", f"{pool}.{stable_mod(value, PG_NUM):x}"


def note_mapped(stage: Stage, pool: str, names: Sequence[str]) -> None:
    """Observe how the monitors map names, with and without namespaces."""
    cluster = stage.cluster
    number = pool_id(cluster, pool)
    places = [(name, "") for name in names[:MAPPED]]
    places += zip(names[-NAMESPACES:], namespaces(stage.rng, NAMESPACES), strict=True)
    wrong = []
    for name, namespace in places:
        answer = cluster.client.mon("osd map", pool=pool, object=name, nspace=namespace)
        got, wanted = (str(answer["raw_pgid"]), str(answer["pgid"])), wanted_pg(number, name, namespace)
        if got != wanted:
            wrong.append(f"{said(name)} in {namespace[:20]!r}: {got}, computed {wanted}")
    stage.recorder.observe(
        "names that the monitors map differently", got=wrong[:_SHOWN], wanted=[], of=len(places), wrong=len(wrong)
    )


def note_tools(
    stage: Stage, pool: int, names: Sequence[str], mapped: Mapping[Arch, Sequence[tuple[str, tuple[int, ...]]]]
) -> None:
    """Observe how osdmaptool maps some names: the right PG on each architecture, and the same OSDs on both."""
    for arch, answers in mapped.items():
        got = {said(name): pgid for name, (pgid, _) in zip(names, answers, strict=True)}
        wanted = {said(name): wanted_pg(pool, name)[1] for name in names}
        stage.recorder.observe(f"PGs that osdmaptool of {arch} finds for names", got=got, wanted=wanted)
    first, *rest = mapped
    for arch in rest:
        title = f"OSDs that osdmaptool of {arch} finds for names, against {first}"
        stage.recorder.observe(title, got=list(mapped[arch]), wanted=list(mapped[first]))


def note_looked_up(stage: Stage, pool: str, names: Sequence[str]) -> None:
    """Observe that every OSD finds objects in its own store by the hashes that it computes from their names."""
    cluster = stage.cluster
    for name in names:
        cluster.client.set_omap(pool, name, {KEY: b"value"})
    lookups = [(osd, name) for name in names for osd in pools.locate(cluster, pool, name)["acting"]]

    def missing(osd: int, name: str) -> bool:
        answer = cluster.client.command(f"osd.{osd}", "getomap", pool=pool, objname=name).decode(errors="replace")
        return f"key={KEY}" not in answer

    with Workers(max_workers=2, thread_name_prefix="asking") as workers:
        absent = list(workers.map(lambda lookup: missing(*lookup), lookups))
    for arch in Arch:
        of_arch = [
            (said(name), is_absent)
            for (osd, name), is_absent in zip(lookups, absent, strict=True)
            if arch_of(cluster, osd) is arch
        ]
        lost = [name for name, is_absent in of_arch if is_absent]
        stage.recorder.observe(f"names that OSDs of {arch} do not find", got=lost[:_SHOWN], wanted=[], of=len(of_arch))
    stage.recorder.witness("names looked up on OSDs", got=len(lookups), least=len(names))


# What one architecture computes


def map_names(side: ArchSide, osdmap: bytes, pool: int, names: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    path = side.put("osdmap", osdmap)
    return [
        parse_mapped(side.run("osdmaptool", path, f"--test-map-object={name}", "--pool", str(pool))) for name in names
    ]


def parse_mapped(printed: str) -> tuple[str, tuple[int, ...]]:
    """PG and OSDs from the output of `osdmaptool --test-map-object`; an empty name and no OSDs if it shows none."""
    match = _MAPPED.search(printed.rstrip())
    if match is None:
        return "", ()
    return match[1], tuple(int(osd) for osd in match[2].split(",") if osd)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="interop.placement-names",
        goal="Both architectures map every object name to the same PG and the same OSDs.",
        method=f"Hashes {NAMES} names of 1 to {NAME_BYTES} bytes with both libraries; maps samples by `ceph osd map`, "
        "osdmaptool of each and every OSD; compares all with the suite's own computation.",
        run=run,
        check="witnessed",
        expects=ODD_PG_NUM,
    ),
)
