"""CRUSH maps, some larger than the lab, and the PG mappings that both architectures compute from the same map."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import EC_2_1
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.sides import ArchSide, agree, each, sides

CLASSES = ("hdd", "ssd", "nvme")
_TUNABLES = {  # Ceph's own defaults since Jewel (CrushWrapper::set_tunables_jewel)
    "choose_local_tries": 0,
    "choose_local_fallback_tries": 0,
    "choose_total_tries": 50,
    "chooseleaf_descend_once": 1,
    "chooseleaf_vary_r": 1,
    "chooseleaf_stable": 1,
    "straw_calc_version": 1,
    "allowed_bucket_algs": 54,
}


@dataclass(frozen=True)
class Rule:
    """A placement rule. kind: `replicated` or `erasure`; size: OSDs per PG; steps: as in a map's text.

    racks: how many racks have an equal share of a PG; 0: any. device_class: of every OSD; empty: any.
    """

    name: str
    kind: str
    size: int
    steps: tuple[str, ...]
    racks: int = 0
    device_class: str = ""


REPLICATED_RULE = Rule(
    "copies", "replicated", 3, ("step take default", "step chooseleaf firstn 0 type host", "step emit")
)
ERASURE_RULE = Rule(
    "shards",
    "erasure",
    6,
    (
        "step set_chooseleaf_tries 5",
        "step set_choose_tries 100",
        "step take default",
        "step choose indep 3 type rack",
        "step chooseleaf indep 2 type host",
        "step emit",
    ),
    racks=3,
)
CLASS_RULE = Rule(
    "fast",
    "replicated",
    3,
    ("step take default class ssd", "step chooseleaf firstn 0 type rack", "step emit"),
    racks=3,
    device_class="ssd",
)
RULES = (REPLICATED_RULE, ERASURE_RULE, CLASS_RULE)


@dataclass(frozen=True)
class Tree:
    """Racks of hosts of OSDs. hosts: per rack; osds: per host, numbered across the tree."""

    racks: int
    hosts: int
    osds: int

    @property
    def osd_count(self) -> int:
        return self.racks * self.hosts * self.osds

    def host_of(self, osd: int) -> int:
        return osd // self.osds

    def rack_of(self, osd: int) -> int:
        return self.host_of(osd) // self.hosts


def crush_text(tree: Tree, rules: Sequence[Rule], rng: Random) -> str:
    """The text of a map for crushtool. Rules are numbered in order. Weights are random, in TiB with five decimals."""
    weights = [round(rng.uniform(0.5, 16), 5) for _ in range(tree.osd_count)]
    lines = [f"tunable {name} {value}" for name, value in _TUNABLES.items()]
    lines += [f"device {osd} osd.{osd} class {CLASSES[osd % len(CLASSES)]}" for osd in range(tree.osd_count)]
    lines += [f"type {number} {name}" for number, name in enumerate(("osd", "host", "rack", "root"))]
    hosts = [range(host * tree.osds, (host + 1) * tree.osds) for host in range(tree.racks * tree.hosts)]
    host_weights = []
    for number, osds in enumerate(hosts):
        lines += _bucket("host", f"host{number}", -2 - number, [(f"osd.{osd}", weights[osd]) for osd in osds])
        host_weights.append(sum(weights[osd] for osd in osds))
    racks = []
    for number in range(tree.racks):
        inside = range(number * tree.hosts, (number + 1) * tree.hosts)
        items = [(f"host{host}", host_weights[host]) for host in inside]
        lines += _bucket("rack", f"rack{number}", -2 - len(hosts) - number, items)
        racks.append((f"rack{number}", sum(weight for _, weight in items)))
    lines += _bucket("root", "default", -1, racks)
    for number, rule in enumerate(rules):
        lines += [f"rule {rule.name} {{", f"id {number}", f"type {rule.kind}", *rule.steps, "}"]
    return "\n".join(lines) + "\n"


def _bucket(kind: str, name: str, ident: int, items: Sequence[tuple[str, float]]) -> list[str]:
    body = [f"item {item} weight {weight:.5f}" for item, weight in items]
    return [f"{kind} {name} {{", f"id {ident}", "alg straw2", "hash 0", *body, "}"]


TREE = Tree(racks=5, hosts=4, osds=4)  # 80 OSDs: the erasure rule needs three racks, and 80 << 7 PGs are over 10,000
PG_BITS = {Tier.QUICK: 7, Tier.FULL: 9}  # pg_num is the number of OSDs shifted left by this
LEAST_MAPPINGS = 10_000
OUT_OSD = 30  # so that mappings must also avoid an OSD that is out
LIVE_PGS = 16
_SHOWN = 3
_MAPPING = re.compile(r"^(\d+\.[0-9a-f]+)\t\[([\d,]*)\]\t(-?\d+)$", re.MULTILINE)

Mappings = Mapping[str, tuple[tuple[int, ...], int]]
"""pgid -> (OSDs in order, primary)."""


def own_map(stage: Stage) -> None:
    """Decompile and recompile the cluster's CRUSH map on both architectures."""
    crush = stage.cluster.client.command("mon", "osd getcrushmap")
    with sides(stage.cluster, "placement") as between:
        texts = each(between, partial(decompile, crush=crush))
        agree(stage.recorder, "text of the cluster's CRUSH map", texts)
        note_devices(stage.recorder, next(iter(texts.values())).decode(), stage.cluster.osd_ids())
        maps = each(between, lambda side: compile_text(side, next(iter(texts.values()))))
    agree(stage.recorder, "bytes of the recompiled CRUSH map", maps)


def note_devices(recorder: Recorder, text: str, osds: Sequence[int]) -> None:
    """Observe that the text of a map is that of this cluster: two tools that ignore their input agree too."""
    devices = re.findall(r"^device (\d+) osd\.\1\b", text, re.MULTILINE)
    recorder.observe("devices in the text of the cluster's CRUSH map", got=sorted(map(int, devices)), wanted=list(osds))


def large_map(stage: Stage) -> None:
    """Build a larger map from layers, and compile a map from text with classes and both kinds of rule."""
    source = crush_text(TREE, RULES, stage.rng).encode()
    with sides(stage.cluster, "placement") as between:
        agree(stage.recorder, "bytes of a map from crushtool --build", each(between, build))
        maps = each(between, lambda side: compile_text(side, source))
        agree(stage.recorder, "bytes of a compiled map", maps)
        # Each decompiles what the other compiled.
        texts = each(between, lambda side: decompile(side, maps[side.arch.other]))
        agree(stage.recorder, "text of the map from the other architecture", texts)
        again = each(between, lambda side: compile_text(side, texts[side.arch.other]))
    agree(stage.recorder, "bytes of the map compiled from the text of the other architecture", again)


def mappings(stage: Stage, rule: Rule, bits: int) -> None:
    """Map at least ten thousand PGs by one rule. bits: the value of PG_BITS for the scenario's own tier."""
    first = [rule, *(known for known in RULES if known is not rule)]  # osdmaptool's own pool uses rule 0
    text = crush_text(TREE, first, stage.rng).encode()
    with sides(stage.cluster, "placement") as between:
        mapped = each(between, partial(map_pgs, text=text, rule=rule, bits=bits))
    note_mappings(stage.recorder, rule, mapped, TREE.osd_count << bits)


def live_mappings(stage: Stage) -> None:
    """Compare both tools' mappings of a replicated and an erasure-coded pool with those of the running cluster."""
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
    """Observe that both architectures mapped all PGs to the same OSDs and by the rule."""
    archs = list(mapped)
    for arch, computed in mapped.items():
        recorder.observe(f"PGs mapped by {arch}", got=len(computed), wanted=count, at_least=LEAST_MAPPINGS)
        wrong = broken(computed, rule)[:_SHOWN]
        recorder.observe(f"PGs whose mapping by {arch} breaks the rule", got=wrong, wanted=[], of=len(computed))
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
    """Descriptions of the PGs of `theirs` that `mine` maps differently or not at all."""
    return [
        f"{pgid}: {mine.get(pgid)} against {wanted}"
        for pgid, wanted in sorted(theirs.items())
        if mine.get(pgid) != wanted
    ]


def broken(computed: Mappings, rule: Rule, tree: Tree = TREE, out: int = OUT_OSD) -> list[str]:
    """PGs with an OSD that is out, or whose OSDs are not those that the rule wants (see `follows`)."""
    return [
        f"{pgid}: {osds}"
        for pgid, (osds, _) in sorted(computed.items())
        if out in osds or not follows(osds, rule, tree)
    ]


def follows(osds: Sequence[int], rule: Rule, tree: Tree) -> bool:
    """Whether there are as many as the rule wants, on different hosts, evenly in its racks, and of its class."""
    if rule.racks and sorted(Counter(map(tree.rack_of, osds)).values()) != [rule.size // rule.racks] * rule.racks:
        return False
    of_class = not rule.device_class or {CLASSES[osd % len(CLASSES)] for osd in osds} == {rule.device_class}
    return of_class and len(osds) == len(set(map(tree.host_of, osds))) == rule.size


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
        goal=f"Clients and daemons of both architectures find {rule.kind} data on the same OSDs.",
        method=f"Maps {count} PGs of an {TREE.osd_count}-OSD map with osdmaptool on each; compares all mappings.",
        run=partial(mappings, rule=rule, bits=PG_BITS[tier]),
        tier=tier,
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="interop.placement-own-map",
        goal="Both architectures decompile the cluster's CRUSH map to the same text and compile it to the same bytes.",
        method="Decompiles it with crushtool on each and compiles it again; compares texts and bytes.",
        run=own_map,
        sees=(".*: .* against .*",),
    ),
    Scenario(
        name="interop.placement-large-map",
        goal="Both architectures make the same CRUSH map with racks, classes and erasure rules.",
        method="Builds and compiles it on each, decompiles and recompiles it on the other; compares texts and bytes.",
        run=large_map,
        sees=(".*: .* against .*",),
    ),
    Scenario(
        name="interop.placement-live",
        goal="Both architectures compute the placement of the running cluster.",
        method="Maps PGs by the cluster's own OSD map with osdmaptool on each; compares them with the PG statistics.",
        run=live_mappings,
        sees=tuple(f"PGs that {arch} places elsewhere than the cluster" for arch in Arch),
    ),
    *(_rule_scenario(rule, tier) for tier in Tier for rule in (REPLICATED_RULE, ERASURE_RULE)),
)
