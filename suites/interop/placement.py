"""CRUSH maps and PG mappings, as computed by both architectures from the same map."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import EC_2_1
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.crush_text import ERASURE_RULE, REPLICATED_RULE, RULES, Rule, Tree, crush_text
from cephlab.suites.interop.sides import ArchSide, agree, each, other, sides

TREE = Tree(racks=5, hosts=4, osds=4)  # 80 OSDs: the erasure rule needs three racks, and 80 << 7 PGs are over 10,000
PG_BITS = {Tier.QUICK: 7, Tier.FULL: 9}  # pg_num is the number of OSDs shifted left by this
LEAST_MAPPINGS = 10_000
OUT_OSD = 30  # so that mappings go round an OSD that is out, too
LIVE_PGS = 16
_SHOWN = 3
_MAPPING = re.compile(r"^(\d+\.[0-9a-f]+)\t\[([\d,]*)\]\t(-?\d+)$", re.MULTILINE)

Mappings = Mapping[str, tuple[tuple[int, ...], int]]
"""pgid -> (OSDs in order, primary)."""


def own_map(stage: Stage) -> None:
    """The cluster's CRUSH map, taken apart and put together by both."""
    crush = stage.cluster.client.command("mon", "osd getcrushmap")
    with sides(stage.cluster, "placement") as between:
        texts = each(between, partial(decompile, crush=crush))
        agree(stage.recorder, "text of the cluster's CRUSH map", texts)
        maps = each(between, lambda side: compile_text(side, next(iter(texts.values()))))
    agree(stage.recorder, "bytes of the recompiled CRUSH map", maps)


def large_map(stage: Stage) -> None:
    """A larger map: built from layers, and compiled from text with classes and both kinds of rule."""
    source = crush_text(TREE, RULES, stage.rng).encode()
    with sides(stage.cluster, "placement") as between:
        agree(stage.recorder, "bytes of a map from crushtool --build", each(between, build))
        maps = each(between, lambda side: compile_text(side, source))
        agree(stage.recorder, "bytes of a compiled map", maps)
        # Each takes apart what the other has put together.
        texts = each(between, lambda side: decompile(side, maps[other(between, side)]))
        agree(stage.recorder, "text of the other's map", texts)
        again = each(between, lambda side: compile_text(side, texts[other(between, side)]))
    agree(stage.recorder, "bytes of the map compiled from the other's text", again)


def mappings(stage: Stage, rule: Rule, bits: int) -> None:
    """Ten thousand PGs or more over one rule. bits: as in PG_BITS, of the scenario's own tier."""
    first = [rule, *(known for known in RULES if known is not rule)]  # osdmaptool's own pool uses rule 0
    text = crush_text(TREE, first, stage.rng).encode()
    with sides(stage.cluster, "placement") as between:
        mapped = each(between, partial(map_pgs, text=text, rule=rule, bits=bits))
    note_mappings(stage.recorder, rule, mapped, TREE.osd_count << bits)


def live_mappings(stage: Stage) -> None:
    """The cluster's own map, with a replicated and an erasure-coded pool: both tools against what the cluster does."""
    cluster = stage.cluster
    with pools.pool(cluster, "copies", pg_num=LIVE_PGS), pools.pool(cluster, "shards", EC_2_1, pg_num=LIVE_PGS):
        osdmap = cluster.client.command("mon", "osd getmap")
        real = {
            pg.pgid: (pg.acting, pg.acting_primary)
            for pool in ("copies", "shards")
            for pg in pools.pgs_of(cluster, pool)
        }
    with sides(cluster, "placement") as between:
        mapped = each(between, partial(map_live, osdmap=osdmap))
    stage.recorder.observe("PGs that the cluster placed", got=len(real), wanted=2 * LIVE_PGS)
    for arch, computed in mapped.items():
        wrong = differing(computed, real)
        stage.recorder.observe(
            f"PGs that {arch} places elsewhere than the cluster", got=wrong[:_SHOWN], wanted=[], of=len(real)
        )


def note_mappings(recorder: Recorder, rule: Rule, mapped: Mapping[Arch, Mappings], count: int) -> None:
    """Observe that both mapped all PGs, alike, and as the rule says."""
    archs = list(mapped)
    for arch, computed in mapped.items():
        recorder.observe(f"PGs mapped by {arch}", got=len(computed), wanted=count, at_least=LEAST_MAPPINGS)
        wrong = broken(computed, rule)[:_SHOWN]
        recorder.observe(f"PGs that {arch} maps against the rule", got=wrong, wanted=[], of=len(computed))
    recorder.observe(
        f"PGs that {archs[0]} and {archs[-1]} map differently",
        got=differing(mapped[archs[0]], mapped[archs[-1]])[:_SHOWN],
        wanted=[],
        of=len(mapped[archs[0]]),
    )
    agree(
        recorder, "all mappings", {arch: repr(sorted(computed.items())).encode() for arch, computed in mapped.items()}
    )


def differing(mine: Mappings, other: Mappings) -> list[str]:
    """PGs of `other` that `one` maps differently or not at all, in words."""
    return [
        f"{pgid}: {mine.get(pgid)} against {wanted}"
        for pgid, wanted in sorted(other.items())
        if mine.get(pgid) != wanted
    ]


def broken(computed: Mappings, rule: Rule) -> list[str]:
    """PGs with too few OSDs, with two on one host, or with the OSD that is out."""
    return [
        f"{pgid}: {osds}"
        for pgid, (osds, _) in sorted(computed.items())
        if len({TREE.host_of(osd) for osd in osds}) != rule.size or OUT_OSD in osds
    ]


def parse_mappings(dump: str) -> Mappings:
    """Read what osdmaptool --test-map-pgs-dump prints."""
    return {
        pgid: (tuple(int(osd) for osd in osds.split(",") if osd), int(primary))
        for pgid, osds, primary in _MAPPING.findall(dump)
    }


# One architecture's part


def decompile(side: ArchSide, crush: bytes) -> bytes:
    side.run("crushtool", "-d", side.put("map", crush), "-o", side.path("text"))
    return side.get("text")


def compile_text(side: ArchSide, text: bytes) -> bytes:
    side.run("crushtool", "-c", side.put("text", text), "-o", side.path("map"))
    return side.get("map")


def build(side: ArchSide) -> bytes:
    layers = ["host", "straw2", str(TREE.osds), "rack", "straw2", str(TREE.hosts), "root", "straw2", "0"]
    side.run("crushtool", "--build", "--num_osds", str(TREE.osd_count), "-o", side.path("built"), *layers)
    return side.get("built")


def map_pgs(side: ArchSide, text: bytes, rule: Rule, bits: int) -> Mappings:
    """Make an OSD map over the CRUSH text and map every PG of its pool."""
    compile_text(side, text)
    osdmap = side.path("osdmap")
    size = ["--osd_pool_default_size", str(rule.size)]
    create = ["--createsimple", str(TREE.osd_count), "--with-default-pool"]
    create += ["--pg-bits", str(bits), "--pgp-bits", str(bits)]
    side.run("osdmaptool", *create, *size, osdmap)
    side.run("osdmaptool", osdmap, "--import-crush", side.path("map"))
    dump = side.run("osdmaptool", osdmap, "--mark-up-in", "--mark-out", str(OUT_OSD), "--test-map-pgs-dump")
    return parse_mappings(dump)


def map_live(side: ArchSide, osdmap: bytes) -> Mappings:
    return parse_mappings(side.run("osdmaptool", side.put("osdmap", osdmap), "--test-map-pgs-dump"))


def _rule_scenario(rule: Rule, tier: Tier) -> Scenario:
    count = TREE.osd_count << PG_BITS[tier]
    return Scenario(
        name=f"interop.placement-mappings{'-many' if tier is Tier.FULL else ''}[rule={rule.kind}]",
        goal=f"Every client and daemon finds {rule.kind} data at the same OSDs, whatever it was compiled for.",
        method=f"osdmaptool of each maps {count} PGs of an {TREE.osd_count}-OSD map; all mappings are compared.",
        run=partial(mappings, rule=rule, bits=PG_BITS[tier]),
        tier=tier,
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="interop.placement-own-map",
        goal="The cluster's CRUSH map means the same to both architectures.",
        method="crushtool of each takes it apart and puts it together again; texts and bytes are compared.",
        run=own_map,
    ),
    Scenario(
        name="interop.placement-large-map",
        goal="A CRUSH map with racks, classes and erasure rules is the same map whichever architecture made it.",
        method="Each builds it, compiles it, and takes apart and recompiles the other's; texts and bytes are compared.",
        run=large_map,
    ),
    Scenario(
        name="interop.placement-live",
        goal="Both architectures compute the placement that the running cluster really has.",
        method="osdmaptool of each maps the cluster's own OSD map; the result is compared with its PG statistics.",
        run=live_mappings,
    ),
    *(_rule_scenario(rule, tier) for tier in Tier for rule in (REPLICATED_RULE, ERASURE_RULE)),
)
