"""Makes the text of a CRUSH map larger than the lab: racks, hosts, device classes, uneven weights, rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

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
    """A placement rule. kind: `replicated` or `erasure`; size: OSDs of a PG; steps: as in a map's text."""

    name: str
    kind: str
    size: int
    steps: tuple[str, ...]


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
)
CLASS_RULE = Rule(
    "fast", "replicated", 3, ("step take default class ssd", "step chooseleaf firstn 0 type rack", "step emit")
)
RULES = (REPLICATED_RULE, ERASURE_RULE, CLASS_RULE)


@dataclass(frozen=True)
class Tree:
    """Racks with hosts with OSDs. hosts: in a rack; osds: in a host, numbered across the tree."""

    racks: int
    hosts: int
    osds: int

    @property
    def osd_count(self) -> int:
        return self.racks * self.hosts * self.osds

    def host_of(self, osd: int) -> int:
        return osd // self.osds


def crush_text(tree: Tree, rules: Sequence[Rule], rng: Random) -> str:
    """A map for crushtool. Rules get numbers in their order. Weights are random, in TiB with five decimals."""
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
