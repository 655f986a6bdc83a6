"""Random CRUSH maps, mapped by Ceph's own crushtool: what the placement checks take for the rule is what CRUSH does."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from cephlab.lab.base.process import run_command
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.local.programs import Programs
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.interop.placement import CLASSES, RULES, Tree, crush_text, follows

pytestmark = pytest.mark.real

INPUTS = 500
_MAPPING = re.compile(r"^CRUSH rule (\d+) x (\d+) \[([\d,]*)\]$", re.MULTILINE)


@pytest.fixture
def crushtool(images: Images) -> Callable[..., str]:
    image = images[host_arch()]

    def run(*words: object) -> str:
        command = Programs(image.root, image.arch).command(["crushtool", *map(str, words)])
        return run_command(command, timeout_s=60).stdout

    return run


@pytest.mark.parametrize("seed", range(8))
def test_every_rule_of_a_random_map_is_followed(seed: int, crushtool: Callable[..., str], tmp_path: Path) -> None:
    rng = Random(seed)
    tree = Tree(racks=rng.randint(4, 7), hosts=rng.randint(3, 6), osds=rng.randint(3, 8))
    (tmp_path / "text").write_text(crush_text(tree, RULES, rng))
    crushtool("-c", tmp_path / "text", "-o", tmp_path / "map")
    for number, rule in enumerate(RULES):
        test = (
            "--test",
            "--show-mappings",
            "--rule",
            number,
            "--num-rep",
            rule.size,
            "--min-x",
            0,
            "--max-x",
            INPUTS - 1,
        )
        mapped = _MAPPING.findall(crushtool("-i", tmp_path / "map", *test))
        assert [(int(by), int(x)) for by, x, _ in mapped] == [(number, x) for x in range(INPUTS)]
        wrong = [osds for *_, osds in mapped if not follows([int(osd) for osd in osds.split(",") if osd], rule, tree)]
        assert not wrong, f"{rule.name} in {tree}"


@pytest.mark.parametrize("seed", range(4))
def test_a_random_map_is_the_tree_and_survives_its_text(
    seed: int, crushtool: Callable[..., str], tmp_path: Path
) -> None:
    rng = Random(seed)
    tree = Tree(racks=rng.randint(1, 6), hosts=rng.randint(1, 6), osds=rng.randint(1, 8))
    (tmp_path / "text").write_text(crush_text(tree, RULES, rng))
    crushtool("-c", tmp_path / "text", "-o", tmp_path / "map")
    # The first text has weights between those that a map can hold, and crushtool rounds them up and down.
    for before, after in (("map", "second"), ("second", "third")):
        crushtool("-d", tmp_path / before, "-o", tmp_path / f"{after}.text")
        crushtool("-c", tmp_path / f"{after}.text", "-o", tmp_path / after)
    assert (tmp_path / "third").read_bytes() == (tmp_path / "second").read_bytes()
    dumped = json.loads(crushtool("-i", tmp_path / "map", "--dump"))
    classes = {device["id"]: device["class"] for device in dumped["devices"]}
    assert classes == {osd: CLASSES[osd % len(CLASSES)] for osd in range(tree.osd_count)}
    buckets = {bucket["name"]: [item["id"] for item in bucket["items"]] for bucket in dumped["buckets"]}
    ids = {bucket["id"]: bucket["name"] for bucket in dumped["buckets"]}
    for osd in range(tree.osd_count):
        host = f"host{tree.host_of(osd)}"
        assert osd in buckets[host]
        assert host in [ids[number] for number in buckets[f"rack{tree.rack_of(osd)}"]]
