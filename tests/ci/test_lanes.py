"""In which hosted job each scenario runs: none is skipped everywhere without a word."""

import importlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cephlab.fixtures.selection import ExpectedLack, dealt, in_tier, not_here, read_expected_skips, unexpected_skips
from cephlab.lab.archive.archive import Ending, Record
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.providers.select import PROVIDERS, choose
from cephlab.lab.scenario.scenario import Scenario, Tier
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, Capability, ClusterSpec

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github/workflows"
SKIPS = ROOT / "suites/expected-skips.toml"
ROOTS_ALONE = {
    "local": {Capability.CUT_LINKS, Capability.MEMORY_DISK},
    "container": {
        Capability.CUT_LINKS,
        Capability.SLOW_DISK,
        Capability.SLOW_NETWORK,
        Capability.SQUEEZE_MEMORY,
        Capability.THIS_MACHINE,
    },
}
"""What a provider can do for root, which a hosted runner's user is not: lab/providers/container/strain.py."""

NOWHERE = {
    "baseline.firmware": "nodes of a lab have no disks and cards of their own",
    "baseline.memory": "nodes of a lab have no memory modules of their own",
    "baseline.numa": "nodes of a lab share the NUMA nodes of the machine below",
    "baseline.pcie-links": "nodes of a lab have no PCIe devices of their own",
    "nvmeof.spdk-*": "gateways over SPDK are there already, or not at all",
}
"""Scenarios, or patterns of them, that no hosted job can run, and why."""


@dataclass(frozen=True)
class Lane:
    """A job that runs the gate. suites: empty for all of them."""

    job: str
    lab: str
    suites: tuple[str, ...]
    tier: Tier
    releases: tuple[str, ...]
    root: bool = False
    only: str = ""

    def runs(self, scenario: Scenario) -> bool:
        wanted = not self.suites or scenario.suite in self.suites
        tier = self.tier is Tier.FULL or scenario.tier is Tier.QUICK
        applies = any(not_here(scenario, release) is None for release in self.releases)
        named = not self.only or any(word in scenario.name for word in self.only.split(" or "))
        return wanted and tier and applies and named and scenario.needs <= able(self.lab, root=self.root)


@cache
def able(lab: str, *, root: bool) -> frozenset[Capability]:
    """What a provider can do on a hosted runner, as far as is known without one.

    by_another: what User-Mode Linux can do where QEMU for x86_64 is installed, which its own lane does without.
    """
    provider: Any = PROVIDERS[lab]()
    usual = getattr(provider, "usual", None) or provider.capabilities()
    more = ROOTS_ALONE.get(lab, set())
    # Asked here, a provider leaves out what a package brings that its lane installs.
    brought = {Capability.FOREIGN_ARCH} | ({Capability.PAGE_SIZE} if lab in ("qemu", "uml") else set())
    by_another = {Capability.CPU_LIMIT, Capability.FABRICS} if lab == "uml" else set()
    return frozenset(usual | more if root else usual - more) - by_another | brought


def lanes() -> Iterator[Lane]:
    defaults = {key: value["default"] for key, value in _gate()["inputs"].items()}
    for path in sorted(WORKFLOWS.glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            if str(job.get("uses", "")).endswith("/gate.yml"):
                given = {**defaults, **job["with"]}
                tier = "quick" if "inputs.tier" in given["tier"] else given["tier"]
                suites = json.loads(given["suites"]) if given.get("suites") else [given["suite"]]
                for lab in json.loads(given["labs"]):
                    yield Lane(
                        f"{path.stem}/{name}",
                        lab,
                        tuple(set(suites) - {"all"}),
                        Tier(tier),
                        tuple(json.loads(given["releases"])),
                        root=given["root"],
                        only=given["only"],
                    )


def _gate() -> Any:
    # YAML 1.1 reads the key `on` as true.
    return yaml.safe_load((WORKFLOWS / "gate.yml").read_text())[True]["workflow_call"]


def scenarios() -> list[Scenario]:
    """Every scenario of every suite whose scenarios need no file of the user's."""
    by_name: dict[str, Scenario] = {}
    for path in sorted((ROOT / "suites").glob("*/test_*.py")):
        module = importlib.import_module(f"cephlab.suites.{path.parent.name}.{path.stem}")
        listed: Any = getattr(module, "SCENARIOS", ())
        by_name |= {scenario.name: scenario for scenario in listed}
    return list(by_name.values())


def homeless(known: list[Scenario], jobs: list[Lane]) -> list[str]:
    return [scenario.name for scenario in known if not any(lane.runs(scenario) for lane in jobs)]


def test_a_job_of_several_parts_runs_all_of_them() -> None:
    default, several = _gate()["inputs"]["shards"]["default"], 0
    for path in sorted(WORKFLOWS.glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            if str(job.get("uses", "")).endswith("/gate.yml"):
                shards = json.loads(job["with"].get("shards", default))
                assert shards == [f"{number}/{len(shards)}" for number in range(1, len(shards) + 1)], name
                several += len(shards) > 1
    assert several


@pytest.mark.slow
def test_each_recorded_duration_is_of_a_scenario_and_stands_on_its_page() -> None:
    names = [scenario.name for scenario in scenarios()]
    entries = tomllib.loads((ROOT / "suites/durations.toml").read_text())["duration"]
    assert [
        entry["scenario"] for entry in entries if not any(fnmatchcase(name, entry["scenario"]) for name in names)
    ] == []
    for entry in entries:
        text = (ROOT / "docs/measured" / entry["measured"]).read_text()
        assert any(f" {took}" in text for took in (f"{entry['seconds']} s", f"{entry['seconds'] / 60:g} min")), entry


@pytest.mark.slow
def test_the_parts_of_cephtests_take_about_as_long() -> None:
    listed = [scenario for scenario in scenarios() if scenario.suite == "cephtests"]
    parts = [dealt(listed, shard) for shard in ("1/2", "2/2")]
    assert sum(len(part) for part in parts) == len(listed)
    for program in ("librbd-api", "librbd-rest", "librbd-diff", "cls_rgw["):
        assert [sum(f"cephtests.{program}" in name for name in part) for part in parts] == [1, 1], program


@pytest.mark.slow
def test_each_scenario_runs_in_some_job_or_says_why_in_none() -> None:
    known = scenarios()
    assert len({scenario.suite for scenario in known}) >= 18
    lost = homeless(known, list(lanes()))
    assert [name for name in lost if not any(fnmatchcase(name, pattern) for pattern in NOWHERE)] == []
    assert [pattern for pattern in NOWHERE if not any(fnmatchcase(name, pattern) for name in lost)] == []


@pytest.mark.slow
@pytest.mark.parametrize("release", [DEFAULT_RELEASE, "tentacle"])
def test_a_release_that_no_job_takes_is_missed(release: str) -> None:
    """A full gate has a program that came with tentacle; it ran in no job, because its skip on reef was expected."""
    jobs = [replace(lane, releases=tuple({*lane.releases} - {release})) for lane in lanes()]
    assert len(homeless(scenarios(), jobs)) > len(NOWHERE)


@pytest.mark.slow
@pytest.mark.parametrize("lab", ["uml", "local", "container", "qemu"])
def test_a_job_that_is_taken_away_is_missed(lab: str) -> None:
    without = homeless(scenarios(), [lane for lane in lanes() if lane.lab != lab])
    assert len(without) > len(NOWHERE)


@dataclass(frozen=True)
class Stub:
    """A provider that is there and can do what is known of it without one."""

    name: str
    able: frozenset[Capability]
    cost = 1

    def capabilities(self) -> frozenset[Capability]:
        return self.able

    def unavailable(self, _spec: ClusterSpec) -> None:
        return None


def skipped(scenario: Scenario, lab: str, providers: dict[str, Any]) -> Record | None:
    """The skip of a scenario for want of a capability, as a gate records it; None if it would run."""
    try:
        choose(lab, scenario.topology.spec(DEFAULT_RELEASE), scenario.needs, providers)
    except Unavailable as lacking:
        return Record(scenario.name, scenario.suite, Ending.SKIP, f"{lacking.what} ({lacking.hint})")
    return None


LABS = [name for name in PROVIDERS if name != "ssh"]  # ssh raises nothing: "the attached cluster" covers all


@cache
def wanting(lab: str, *, root: bool) -> tuple[tuple[Scenario, Record], ...]:
    """Every scenario that is skipped with a lab for want of a capability, with its skip."""
    providers = {name: partial(Stub, name, able(name, root=root)) for name in LABS}
    skips = ((scenario, skipped(scenario, lab, providers)) for scenario in scenarios())
    return tuple((scenario, skip) for scenario, skip in skips if skip is not None)


@pytest.mark.slow
@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("lab", [*LABS, "auto"])
def test_each_skip_for_want_of_a_capability_is_expected(lab: str, root: bool) -> None:
    """A gate with `--lab local` ended red: it cuts no links of a gateway, and only some suites were listed."""
    expected = read_expected_skips(SKIPS)
    skips = wanting(lab, root=root)
    assert skips
    for tier in Tier:
        there = [skip for scenario, skip in skips if in_tier(scenario, tier)]
        assert [skip.scenario for skip in unexpected_skips(there, expected, tier)] == []


@pytest.mark.slow
def test_no_skip_is_expected_for_what_a_provider_usually_can() -> None:
    for each in read_expected_skips(SKIPS):
        if isinstance(each, ExpectedLack):
            assert able(each.provider, root=False).isdisjoint(each.capabilities), each.provider


@pytest.mark.slow
def test_a_skip_for_what_a_provider_usually_can_is_unexpected() -> None:
    """Every scenario that runs with a lab is missed if the lab loses one of its capabilities."""
    expected, seen = read_expected_skips(SKIPS), 0
    for lab in LABS:
        away = {skip.scenario for _, skip in wanting(lab, root=False)}
        for scenario in scenarios():
            for lost in scenario.needs if scenario.name not in away else ():
                less = able(lab, root=False) - {lost}
                skip = skipped(scenario, lab, {lab: partial(Stub, lab, less)})
                assert skip is not None
                assert unexpected_skips([skip], expected, Tier.FULL) == [skip]
                seen += 1
    assert seen > len(LABS)
