"""Which scenarios run and in which order, and which skips are expected: the parts that need no pytest run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.selection import SkipJudge, in_tier, not_here, ordered, read_expected_skips, to_rerun
from lab.arch import host_arch
from lab.archive import Ending, Record
from lab.errors import SpecError, Unavailable
from lab.providers.local import LocalProvider
from lab.providers.select import choose
from lab.scenario import Scenario, Tier, Topology
from lab.spec import Capability, ClusterSpec, Node
from tests.fake_raising import good, scenario

ROOT = Path(__file__).resolve().parent.parent
NEEDY = frozenset({Capability.PARTITION})


@pytest.mark.parametrize(
    ("own", "asked", "runs"),
    [
        (Tier.QUICK, Tier.QUICK, True),
        (Tier.QUICK, Tier.FULL, True),
        (Tier.FULL, Tier.QUICK, False),
        (Tier.FULL, Tier.FULL, True),
    ],
)
def test_the_full_tier_holds_the_quick_one(own: Tier, asked: Tier, runs: bool) -> None:
    assert in_tier(scenario("demo.a", good, tier=own), asked) is runs


def test_a_release_is_named_when_a_scenario_is_not_for_it() -> None:
    new = scenario("demo.a", good, only_releases={"tentacle": "the command is new"})
    assert not_here(new, "tentacle") is None
    assert not_here(new, "reef") == "not for reef: the command is new"
    assert not_here(scenario("demo.b", good), "reef") is None


def test_order_is_by_cluster_then_by_what_spoils_then_as_given() -> None:
    three, plain = Topology(mons=3), Topology()
    given: list[Scenario] = [
        scenario("demo.1", good, topology=three, spoils=True),
        scenario("demo.2", good, topology=plain, needs=NEEDY),
        scenario("demo.3", good, topology=plain),
        scenario("demo.4", good, topology=three),
        scenario("demo.5", good, topology=plain, needs=NEEDY),
        scenario("demo.6", good, topology=three),
    ]
    found = ordered([(one, one.name) for one in given])
    assert found == ["demo.4", "demo.6", "demo.1", "demo.2", "demo.5", "demo.3"]


def test_what_did_not_pass_runs_again_and_a_skip_does_not() -> None:
    records = [Record(f"demo.{ending}", "demo", ending, "r") for ending in Ending]
    assert to_rerun(records) == {"demo.fail", "demo.inconclusive", "demo.error"}


SKIPS = """
[[skip]]
scenario = "demo.a*"
tiers = ["quick"]
because = "no engine"
reason = "Small machines have none."
"""


@pytest.mark.parametrize(
    ("name", "ending", "reason", "tier", "expected"),
    [
        ("demo.a[x=1]", Ending.SKIP, "no engine answers", Tier.QUICK, True),
        ("demo.b", Ending.SKIP, "no engine answers", Tier.QUICK, False),
        ("demo.a", Ending.SKIP, "no emulator", Tier.QUICK, False),
        ("demo.a", Ending.SKIP, "no engine answers", Tier.FULL, False),
        ("demo.b", Ending.FAIL, "anything", Tier.QUICK, True),
    ],
)
def test_a_skip_is_expected_by_name_tier_and_reason(
    tmp_path: Path, name: str, ending: Ending, reason: str, tier: Tier, expected: bool
) -> None:
    path = tmp_path / "skips.toml"
    path.write_text(SKIPS)
    found = SkipJudge(read_expected_skips(path), tier).unexpected([Record(name, "demo", ending, reason)])
    assert (found == []) is expected


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("[[skip]]", "[[skips]]"), "skips"),
        (('tiers = ["quick"]', 'tiers = ["slow"]'), "skip.0.tiers.0"),
        (('because = "no engine"', ""), "skip.0.because"),
        (('reason = "Small machines have none."', 'reason = "no"'), "skip.0.reason"),
        (("[[skip]]", "[[skip"), "is not TOML"),
    ],
)
def test_a_list_that_does_not_fit_is_refused_with_the_place(
    tmp_path: Path, change: tuple[str, str], place: str
) -> None:
    path = tmp_path / "skips.toml"
    path.write_text(SKIPS.replace(*change))
    with pytest.raises(SpecError) as error:
        read_expected_skips(path)
    assert place in str(error.value)


def test_no_list_expects_nothing(tmp_path: Path) -> None:
    assert read_expected_skips(tmp_path / "absent.toml") == ()


def test_the_repositorys_own_list_is_valid() -> None:
    assert all(skip.reason for skip in read_expected_skips(ROOT / "ci/expected-skips.toml"))


@pytest.mark.parametrize("name", ["powerloss.replayed", "dmcache.gain[writeback]", "upgrade.rolling[to=reef]"])
def test_what_a_provider_asked_for_by_name_cannot_do_may_be_skipped_where_auto_may_not(name: str) -> None:
    needs = frozenset({Capability.POWER_CUT, Capability.HARDWARE})
    judge = SkipJudge(read_expected_skips(ROOT / "ci/expected-skips.toml"), Tier.QUICK)
    skips = []
    for lab in ("local", "auto"):
        with pytest.raises(Unavailable) as lacking:
            choose(lab, ClusterSpec((Node("n0", host_arch(), mon=True, mgr=True),)), needs, {"local": LocalProvider})
        skips.append(Record(name, "demo", Ending.SKIP, f"{lacking.value.what} ({lacking.value.hint})"))
    assert judge.unexpected(skips) == skips[1:]
