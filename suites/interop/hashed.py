"""Where objects belong by their names: libraries, tools and OSDs of both against a computation of the suite's own."""

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
MAPPED = 300  # asked of the monitors, a command each
NAMESPACES = 60  # likewise
TOOLED = 4  # osdmaptool maps one name a process, and an emulated process takes half a second to start
LOOKED_UP = 24  # asked of every OSD
LIMIT_S = 60.0
KEY = "key"
_SHOWN = 3
_MAPPED = re.compile(r"-> (\d+\.[0-9a-f]+) -> \[([\d,]*)\]\s*$")

HASHES = """
import ctypes, sys
import rados  # its library brings the one that is asked, wherever the image has it
f = ctypes.CDLL("libceph-common.so.2")._Z22ceph_str_hash_rjenkinsPKcj
f.restype, f.argtypes = ctypes.c_uint32, [ctypes.c_char_p, ctypes.c_uint]
for line in sys.stdin:
    key = bytes.fromhex(line)
    print(f(key, len(key)))
"""
"""Runs on a host under the image's Python: reads keys in hexadecimal, prints what Ceph's own library makes of each."""


def run(stage: Stage) -> None:
    """Thousands of names by the libraries; samples by the monitors, by osdmaptool, and by every OSD."""
    cluster = stage.cluster
    names = texts(stage.rng, NAMES, NAME_BYTES)
    with sides(cluster, "hashed") as between, pools.pool(cluster, "hashed", pg_num=PG_NUM) as pool:
        for arch, hashes in each(between, partial(library_hashes, names=names, patience=cluster.patience)).items():
            wrong = [said(name) for name, got in zip(names, hashes, strict=True) if got != rjenkins(name.encode())]
            stage.recorder.observe(f"names that {arch} hashes otherwise", got=wrong[:_SHOWN], wanted=[], of=len(names))
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
    """A name in short, with its length."""
    return f"{len(name.encode())} bytes, {name[:20]!r}"


def library_hashes(side: ArchSide, names: Sequence[str], patience: float) -> list[int]:
    """What an architecture's libceph-common makes of each name, in one process."""
    keys = "".join(f"{name.encode().hex()}\n" for name in names).encode()
    printed = side.host.run(["python3", "-c", HASHES], stdin=keys, timeout_s=LIMIT_S * patience).stdout
    return [int(line) for line in printed.split()]


def pool_id(cluster: Cluster, pool: str) -> int:
    return int(pools.locate(cluster, pool, "any")["pool_id"])


def wanted_pg(pool: int, name: str, namespace: str = "") -> tuple[str, str]:
    """Raw PG and PG of an object, as `ceph osd map` writes them."""
    value = object_hash(name, namespace=namespace)
    return f"{pool}.{value:x}", f"{pool}.{stable_mod(value, PG_NUM):x}"


def note_mapped(stage: Stage, pool: str, names: Sequence[str]) -> None:
    """What the monitors say of names, and of names in namespaces."""
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
        "names that the monitors map otherwise", got=wrong[:_SHOWN], wanted=[], of=len(places), wrong=len(wrong)
    )


def note_tools(
    stage: Stage, pool: int, names: Sequence[str], mapped: Mapping[Arch, Sequence[tuple[str, tuple[int, ...]]]]
) -> None:
    """What osdmaptool of each says of some names: the PG, and the same OSDs by both."""
    for arch, answers in mapped.items():
        got = {said(name): pgid for name, (pgid, _) in zip(names, answers, strict=True)}
        wanted = {said(name): wanted_pg(pool, name)[1] for name in names}
        stage.recorder.observe(f"PGs that osdmaptool of {arch} finds for names", got=got, wanted=wanted)
    first, *rest = mapped
    for arch in rest:
        what = f"OSDs that osdmaptool of {arch} finds for names, against {first}"
        stage.recorder.observe(what, got=list(mapped[arch]), wanted=list(mapped[first]))


def note_looked_up(stage: Stage, pool: str, names: Sequence[str]) -> None:
    """Whether every OSD finds objects in its own store by the hash that it computes itself of their names."""
    cluster = stage.cluster
    for name in names:
        cluster.client.set_omap(pool, name, {KEY: b"value"})
    asked = [(osd, name) for name in names for osd in pools.locate(cluster, pool, name)["acting"]]

    def missing(osd: int, name: str) -> bool:
        answer = cluster.client.command(f"osd.{osd}", "getomap", pool=pool, objname=name).decode(errors="replace")
        return f"key={KEY}" not in answer

    with Workers(max_workers=2, thread_name_prefix="asking") as workers:
        absent = list(workers.map(lambda each: missing(*each), asked))
    for arch in Arch:
        lost = [
            said(name)
            for (osd, name), gone in zip(asked, absent, strict=True)
            if gone and arch_of(cluster, osd) is arch
        ]
        stage.recorder.observe(f"names that OSDs of {arch} do not find", got=lost[:_SHOWN], wanted=[], of=len(asked))
    stage.recorder.witness("names asked of OSDs", got=len(asked), least=len(names))


# One architecture's part


def map_names(side: ArchSide, osdmap: bytes, pool: int, names: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    path = side.put("osdmap", osdmap)
    return [
        parse_mapped(side.run("osdmaptool", path, f"--test-map-object={name}", "--pool", str(pool))) for name in names
    ]


def parse_mapped(printed: str) -> tuple[str, tuple[int, ...]]:
    """PG and OSDs, from what `osdmaptool --test-map-object` prints; nothing where it does not say."""
    match = _MAPPED.search(printed.rstrip())
    if match is None:
        return "", ()
    return match[1], tuple(int(osd) for osd in match[2].split(",") if osd)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="interop.placement-names",
        goal="An object's name leads to the same PG and the same OSDs on both architectures, whatever the name.",
        method=f"Both libraries hash {NAMES} names of 1 to {NAME_BYTES} bytes; `ceph osd map`, osdmaptool of each and "
        "every OSD are asked for samples; a computation of the suite's own is what they have to agree with.",
        run=run,
        check="witnessed",
        expects=ODD_PG_NUM,
    ),
)
