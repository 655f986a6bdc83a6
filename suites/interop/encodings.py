"""Monitor and OSD maps: both architectures make the same bytes from the same input and read each other's maps.

For CRUSH maps see `placement`.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.placement import RULES, Tree, crush_text
from cephlab.suites.interop.sides import ArchSide, agree, each, sides

TREE = Tree(racks=3, hosts=2, osds=2)  # small, because printing an OSD map maps all its PGs several times
FSID = "0a1b2c3d-0000-4000-8000-00000000cafe"  # any value, the same for both
NO_CONF = ("-c", "/dev/null")  # monmaptool writes the configured fsid into every map, even one that it only prints
_CRC_BYTES = 4
_TIME = re.compile(r"^(?:created|modified|last_changed) (\d+-\S+)$", re.MULTILINE)  # not 0.000000, no time
_LATER_S = 900  # the tools run within that many seconds, on a slow machine too


@dataclass(frozen=True)
class MapKind:
    """A kind of map and its tool. pinned: clears the times in a new map, given the map and its printed form."""

    name: str
    live: str
    make: Callable[[ArchSide], bytes]
    change: Callable[[ArchSide, bytes, bytes], bytes]
    show: Callable[[ArchSide, bytes], str]
    pinned: Callable[[bytes, str], bytes]


def run(stage: Stage, kind: MapKind) -> None:
    """Let both make a map, make the same change to one map, and print each other's maps and the cluster's."""
    live = stage.cluster.client.command("mon", kind.live)
    crush = crush_text(TREE, RULES, stage.rng).encode()
    with sides(stage.cluster, "encodings") as between:
        encoded = each(between, kind.make)
        base = next(iter(encoded.values()))
        changed = each(between, lambda side: kind.change(side, base, crush))

        def show(side: ArchSide) -> tuple[str, str, str]:
            there = side.arch.other
            return kind.show(side, encoded[there]), kind.show(side, changed[there]), kind.show(side, live)

        printed = each(between, show)
    for index, (what, maps) in enumerate((("a new map", encoded), ("the same map after the same change", changed))):
        pinned = {arch: kind.pinned(maps[arch], printed[arch.other][index]) for arch in between}
        agree(stage.recorder, f"bytes of {what} ({kind.name}) without times", pinned)
    for index, which in ((1, "changed by the other architecture"), (2, "of the cluster")):
        texts = {arch: text[index].encode() for arch, text in printed.items()}
        agree(stage.recorder, f"printed {kind.name} map {which}", texts)
    stage.recorder.observe(f"architectures that made the {kind.name} map", got=sorted(encoded), wanted=sorted(Arch))


def make_monmap(side: ArchSide) -> bytes:
    monitors = [
        word for n in range(3) for word in ("--addv", f"m{n}", f"[v2:10.0.0.{n + 1}:3300,v1:10.0.0.{n + 1}:6789]")
    ]
    side.run("monmaptool", *NO_CONF, "--create", "--fsid", FSID, *monitors, "--enable-all-features", side.path("map"))
    return side.get("map")


def change_monmap(side: ArchSide, base: bytes, _crush: bytes) -> bytes:
    path = side.put("changed", base)
    side.run("monmaptool", *NO_CONF, "--rm", "m1", "--addv", "late", "[v2:[fd00::7]:3300]", path)
    return side.get("changed")


def print_monmap(side: ArchSide, content: bytes) -> str:
    """Print a map, without the lines that name the file."""
    lines = side.run("monmaptool", *NO_CONF, "--print", side.put("shown", content)).splitlines()
    return "\n".join(line for line in lines if "monmaptool: " not in line)


def make_osdmap(side: ArchSide) -> bytes:
    sizes = ["--createsimple", str(TREE.osd_count), "--with-default-pool", "--pg-bits", "2", "--pgp-bits", "2"]
    side.run("osdmaptool", *sizes, side.path("map"))
    return side.get("map")


def change_osdmap(side: ArchSide, base: bytes, crush: bytes) -> bytes:
    """Import a CRUSH map that this architecture compiles from text. The tool sets no time for that."""
    side.run("crushtool", "-c", side.put("text", crush), "-o", side.path("crush"))
    side.run("osdmaptool", side.put("changed", base), "--import-crush", side.path("crush"))
    return side.get("changed")


def print_osdmap(side: ArchSide, content: bytes) -> str:
    return side.run("osdmaptool", side.put("shown", content), "--print")


def without_times(content: bytes, printed: str) -> bytes:
    """The map with zeros in place of its times (seconds, then nanoseconds, 32 bits each).

    Maps of tentacle also have the time at which each monitor was added, which is not printed but soon after the others.
    """
    for text in set(_TIME.findall(printed)):
        first = int(datetime.fromisoformat(text).timestamp())
        seconds = b"|".join(re.escape(struct.pack("<I", first + later)) for later in range(_LATER_S))
        content = re.sub(b"(?:" + seconds + b").{4}", bytes(8), content, flags=re.DOTALL)
    return content


def without_times_and_sum(content: bytes, printed: str) -> bytes:
    """The OSD map without times and without its last bytes, a CRC that the other architecture's tool has verified."""
    return without_times(content, printed)[:-_CRC_BYTES]


MONITOR = MapKind("monitor", "mon getmap", make_monmap, change_monmap, print_monmap, without_times)
OSD = MapKind("OSD", "osd getmap", make_osdmap, change_osdmap, print_osdmap, without_times_and_sum)

SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(
        name=f"interop.encoding-map[kind={kind.name.lower()}]",
        goal=f"Both architectures encode {kind.name} maps to the same bytes, and decode them to the same values.",
        method="Makes a map on each, changes the same map on each, prints the other's maps and the cluster's; compares "
        "all results.",
        run=partial(run, kind=kind),
    )
    for kind in (MONITOR, OSD)
)
