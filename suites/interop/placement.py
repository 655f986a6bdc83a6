"""CRUSH maps and PG mappings that both architectures compute from the same map."""

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
from cephlab.suites.interop.matrix import other
from cephlab.suites.interop.sides import ArchSide, agree, each, sides

TREE = Tree(racks=5, hosts=4, osds=4)  # 80 OSDs: the erasure rule needs three racks, and 80 << 7 PGs are over 10,000
PG_BITS = {Tier.QUICK: 7, Tier.FULL: 9}  # pg_num is the number of OSDs shifted left by this
LEAST_MAPPINGS = 10_000
OUT_OSD = 30  # so that mappings must avoid an OSD that is out, too
LIVE_PGS = 16
_SHOWN = 3
_MAPPING = re.compile(r"^(\d+\.[0-9a-f]+)\t\[([\d,]*)\]\t(-?\d+)$", re.MULTILINE)

Mappings = Mapping[str, tuple[tuple[int, ...], int]]
"""pgid -> (OSDs in order, primary)."""


def own_map(stage: Stage) -> None:
    """Decompile and recompile the cluster's CRUSH map on both."""
    crush = stage.cluster.client.command("mon", "osd getcrushmap")
    with sides(stage.cluster, "placement") as between:
        texts = each(between, partial(decompile, crush=crush))
        agree(stage.recorder, "text of the cluster's CRUSH map", texts)
        maps = each(between, lambda side: compile_text(side, next(iter(texts.values()))))
    agree(stage.recorder, "bytes of the recompiled CRUSH map", maps)


def large_map(stage: Stage) -> None:
    """Build a larger map from layers, and compile one from text with classes and both kinds of rule."""
    source = crush_text(TREE, RULES, stage.rng).encode()
    with sides(stage.cluster, "placement") as between:
        agree(stage.recorder, "bytes of a map from crushtool --build", each(between, build))
        maps = each(between, lambda side: compile_text(side, source))
        agree(stage.recorder, "bytes of a compiled map", maps)
        # Each decompiles what the other compiled.
        texts = each(between, lambda side: decompile(side, maps[other(side.arch)]))
        agree(stage.recorder, "text of the other's map", texts)
        again = each(between, lambda side: compile_text(side, texts[other(side.arch)]))
    agree(stage.recorder, "bytes of the map compiled from the other's text", again)


def mappings(stage: Stage, rule: Rule, bits: int) -> None:
    """Map ten thousand PGs or more by one rule. bits: from PG_BITS, of the scenario's own tier."""
    first = [rule, *(known for known in RULES if known is not rule)]  # osdmaptool's own pool uses rule 0
    text = crush_text(TREE, first, stage.rng).encode()
    with sides(stage.cluster, "placement") as between:
        mapped = each(between, partial(map_pgs, text=text, rule=rule, bits=bits))
    note_mappings(stage.recorder, rule, mapped, TREE.osd_count << bits)


def live_mappings(stage: Stage) -> None:
    """Hold both tools' mappings of a replicated and an erasure-coded pool to those of the running cluster."""
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
    """Observe that both mapped all PGs alike and by the rule."""
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


def differing(mine: Mappings, theirs: Mappings) -> list[str]:
    """PGs of `theirs` that `mine` maps differently or not at all, in words."""
    return [
        f"{pgid}: {mine.get(pgid)} against {wanted}"
        for pgid, wanted in sorted(theirs.items())
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
    return {
        pgid: (tuple(int(osd) for osd in osds.split(",") if osd), int(primary))
        for pgid, osds, primary in _MAPPING.findall(dump)
    }


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
    """Make an OSD map with the CRUSH text and map every PG of its pool."""
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
        goal=f"Clients and daemons of both architectures find {rule.kind} data at the same OSDs.",
        method=f"Each maps {count} PGs of an {TREE.osd_count}-OSD map by osdmaptool; compares all mappings.",
        run=partial(mappings, rule=rule, bits=PG_BITS[tier]),
        tier=tier,
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="interop.placement-own-map",
        goal="The cluster's CRUSH map means the same to both architectures.",
        method="Each decompiles it by crushtool and compiles it again; compares texts and bytes.",
        run=own_map,
    ),
    Scenario(
        name="interop.placement-large-map",
        goal="Both architectures make the same CRUSH map with racks, classes and erasure rules.",
        method="Each builds and compiles it, and decompiles and recompiles the other's; compares texts and bytes.",
        run=large_map,
    ),
    Scenario(
        name="interop.placement-live",
        goal="Both architectures compute the placement of the running cluster.",
        method="Each maps the cluster's own OSD map by osdmaptool; compares the result with the PG statistics.",
        run=live_mappings,
    ),
    *(_rule_scenario(rule, tier) for tier in Tier for rule in (REPLICATED_RULE, ERASURE_RULE)),
)
