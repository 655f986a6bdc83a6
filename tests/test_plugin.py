"""The pytest plugin: outcomes by blame, shared clusters, selection, and the archive that a run leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# The plugin is imported anew by every inner run; what it stands on is imported here, once.
from fixtures import hookspecs as _hookspecs  # noqa: F401
from fixtures import session as _session  # noqa: F401
from lab.archive import Archive, Ending, Record, altered, judge, read_archive
from lab.errors import CephTrouble, LabBroken, SpecError
from lab.spec import Capability
from tests.fake_raising import KEY, FakeRaiser

pytest_plugins = ["pytester"]

# hypothesis's own plugin would be imported again, and rewritten, by every inner run: seconds each.
PLUGINS = ("-p", "fixtures.plugin", "-p", "no:hypothesispytest")

SUITE = """
import pytest
from fixtures.outcomes import require
from lab.scenario import Scenario, Stage, Tier, Topology, run_scenario
from lab.spec import Capability
from tests import fake_raising as fake
from tests.fake_raising import scenario

SCENARIOS = ({lines})

@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_scenario(scenario, stage):
    require(run_scenario(scenario, stage))
"""


@dataclass
class Ran:
    """A run of the demo suite."""

    result: pytest.RunResult
    raiser: FakeRaiser
    directory: Path

    @property
    def archive(self) -> Archive:
        return read_archive(self.directory)

    @property
    def endings(self) -> dict[str, Ending]:
        return {record.scenario: record.ending for record in self.archive.records}

    def record(self, name: str) -> Record:
        return next(record for record in self.archive.records if record.scenario == name)


@dataclass
class Bench:
    """Runs demo suites in a folder of their own."""

    pytester: pytest.Pytester

    def run(self, *lines: str, raiser: FakeRaiser | None = None, archive: str = "archive", args: str = "") -> Ran:
        """lines: arguments of `scenario(...)`."""
        raiser = raiser or FakeRaiser()
        text = "".join(f"scenario({line}), " for line in lines)
        self.pytester.makepyfile(test_demo=SUITE.format(lines=text))
        directory = self.pytester.path / archive
        result = self.pytester.runpytest_inprocess(
            *PLUGINS,
            f"--archive={directory}",
            f"--home={self.pytester.path / 'home'}",
            *args.split(),
            plugins=[raiser],
        )
        return Ran(result, raiser, directory)


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Bench:
    return Bench(pytester)


# Outcomes

OUTCOMES = (
    ("good", {"passed": 1}, Ending.PASS, 0),
    ("wrong", {"failed": 1}, Ending.FAIL, 1),
    ("silent", {"inconclusive": 1}, Ending.INCONCLUSIVE, 6),
    ("ceph_trouble", {"failed": 1}, Ending.FAIL, 1),
    ("ceph_trouble_on_a_lost_node", {"failed": 1}, Ending.FAIL, 1),
    ("lab_trouble", {"errors": 1}, Ending.ERROR, 3),
    ("mistaken", {"errors": 1}, Ending.ERROR, 3),
    ("lacking", {"skipped": 1}, Ending.SKIP, 1),
    ("crashing", {"failed": 1}, Ending.FAIL, 1),
    ("sickening", {"failed": 1}, Ending.FAIL, 1),
    ("grumbling", {"failed": 1}, Ending.FAIL, 1),
    ("blinding", {"inconclusive": 1}, Ending.INCONCLUSIVE, 3),
    ("blinding_by_ceph", {"failed": 1}, Ending.FAIL, 1),
)


@pytest.mark.parametrize(("behaviour", "counts", "ending", "code"), OUTCOMES)
def test_outcome_follows_blame(bench: Bench, behaviour: str, counts: dict[str, int], ending: Ending, code: int) -> None:
    ran = bench.run(f"'demo.x', fake.{behaviour}")
    assert ran.result.parseoutcomes() == counts
    assert ran.endings == {"demo.x": ending}
    assert ran.result.ret == code
    assert ran.archive.manifest["exit_code"] == code
    assert ran.archive.manifest["state"] == "complete"


RAISING = (
    (FakeRaiser(raise_error=LabBroken("no address is free")), {"errors": 1}, Ending.ERROR, 3),
    (FakeRaiser(raise_error=CephTrouble("mon.n0 died")), {"failed": 1}, Ending.FAIL, 1),
    (FakeRaiser(health_error=CephTrouble("never healthy")), {"failed": 1}, Ending.FAIL, 1),
)


@pytest.mark.parametrize(("raiser", "counts", "ending", "code"), RAISING, ids=["lab", "ceph", "health"])
def test_trouble_while_raising_is_blamed_the_same_way(
    bench: Bench, raiser: FakeRaiser, counts: dict[str, int], ending: Ending, code: int
) -> None:
    ran = bench.run("'demo.x', fake.good", raiser=raiser)
    assert (ran.result.parseoutcomes(), ran.endings, int(ran.result.ret)) == (counts, {"demo.x": ending}, code)


def test_a_cluster_that_never_became_healthy_leaves_its_logs_and_is_removed(bench: Bench) -> None:
    ran = bench.run("'demo.x', fake.good", raiser=FakeRaiser(health_error=CephTrouble("never healthy", "1 pg down")))
    assert ran.raiser.did == ["raise c1 with 1 mons", "close c1"]
    assert ran.record("demo.x").logs == "logs/demo.x"


def test_worst_outcome_gives_the_exit_code(bench: Bench) -> None:
    ran = bench.run(
        "'demo.a', fake.silent", "'demo.b', fake.wrong", "'demo.c', fake.lab_trouble", "'demo.d', fake.good"
    )
    assert ran.result.parseoutcomes() == {"passed": 1, "failed": 1, "errors": 1, "inconclusive": 1}
    assert ran.result.ret == 1


def test_inconclusive_with_lab_trouble_is_a_broken_lab(bench: Bench) -> None:
    assert bench.run("'demo.a', fake.silent", "'demo.b', fake.lab_trouble").result.ret == 3


def test_a_failure_says_cause_and_derivation_without_a_traceback(bench: Bench) -> None:
    ran = bench.run("'demo.x', fake.wrong")
    ran.result.stdout.fnmatch_lines(["fail: sha256 of object-3: got 'beef', wanted 'cafe'"])
    ran.result.stdout.no_fnmatch_line("*fake_raising.py*")
    assert ran.record("demo.x").reason == "sha256 of object-3: got 'beef', wanted 'cafe'"


def test_what_a_scenario_left_behind_is_named(bench: Bench) -> None:
    assert bench.run("'demo.x', fake.grumbling").record("demo.x").reason == (
        "afterwards: unexpected line in the log of osd.0: bad crc in data"
    )


def test_a_plain_test_keeps_its_own_outcome_beside_scenarios(bench: Bench) -> None:
    bench.pytester.makepyfile(test_other="def test_a(): assert False\n")
    ran = bench.run("'demo.x', fake.good")
    assert ran.result.parseoutcomes() == {"passed": 1, "failed": 1}
    assert ran.result.ret == 1
    assert ran.endings == {"demo.x": Ending.PASS}


# Clusters


def test_equal_topologies_share_a_cluster_and_no_topology_is_raised_twice(bench: Bench) -> None:
    ran = bench.run(
        "'demo.a', fake.good",
        "'demo.b', fake.good, topology=Topology(mons=3)",
        "'demo.c', fake.good",
        "'demo.d', fake.good, topology=Topology(mons=3)",
    )
    assert ran.result.parseoutcomes() == {"passed": 4}
    assert ran.raiser.did == ["raise c1 with 1 mons", "close c1", "raise c2 with 3 mons", "close c2"]


def test_a_failure_retires_its_cluster_and_the_next_gets_a_fresh_one(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.crashing", "'demo.b', fake.good")
    assert ran.endings == {"demo.a": Ending.FAIL, "demo.b": Ending.PASS}
    assert ran.raiser.did == ["raise c1 with 1 mons", "close c1", "raise c2 with 1 mons", "close c2"]
    assert [record.cluster for record in ran.archive.records] == ["c1", "c2"]


def test_what_spoils_its_cluster_comes_last_and_leaves_none(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.good, spoils=True", "'demo.b', fake.good", "'demo.c', fake.good, spoils=True")
    assert [record.scenario for record in ran.archive.records] == ["demo.b", "demo.a", "demo.c"]
    assert ran.raiser.did == ["raise c1 with 1 mons", "close c1", "raise c2 with 1 mons", "close c2"]


def test_a_later_scenario_is_not_blamed_for_a_cluster_that_broke_before_it(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.breaking_later", "'demo.b', fake.good")
    assert ran.endings == {"demo.a": Ending.PASS, "demo.b": Ending.PASS}
    assert ran.raiser.did == ["raise c1 with 1 mons", "close c1", "raise c2 with 1 mons", "close c2"]


def test_keep_leaves_the_first_failure_up(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.wrong", "'demo.b', fake.wrong", args="--keep")
    assert ran.raiser.did == ["raise c1 with 1 mons", "keep c1", "close c1", "raise c2 with 1 mons", "close c2"]
    assert ran.archive.manifest["kept"] == ["c1"]


def test_the_way_into_what_was_left_up_is_printed(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.wrong", args="--keep")
    ran.result.stdout.fnmatch_lines(["c1 was left up. Enter it with:", "  *cephlab shell c1 n0"])


def test_a_cluster_that_cannot_be_kept_is_closed_all_the_same(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.wrong", args="--keep", raiser=FakeRaiser(keep_error=LabBroken("disk full")))
    assert ran.raiser.did == ["raise c1 with 1 mons", "keep c1", "close c1"]
    assert ran.archive.manifest["kept"] == []
    assert ran.archive.manifest["trouble"] == ["disk full"]


def test_a_cluster_that_cannot_be_removed_breaks_the_lab_but_not_the_verdict(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.good", raiser=FakeRaiser(close_error=LabBroken("a process does not die")))
    assert (ran.endings, int(ran.result.ret)) == ({"demo.a": Ending.PASS}, 3)
    assert ran.archive.manifest["trouble"] == ["a process does not die"]


# Selection


def test_the_quick_tier_leaves_out_what_only_the_full_one_runs(bench: Bench) -> None:
    lines = ("'demo.a', fake.good", "'demo.b', fake.good, tier=Tier.FULL")
    assert set(bench.run(*lines, archive="one").endings) == {"demo.a"}
    assert set(bench.run(*lines, archive="two", args="--tier full").endings) == {"demo.a", "demo.b"}


NEEDY = "'demo.a', fake.good, needs=frozenset({Capability.PARTITION})"
LACKS = frozenset({Capability.PARTITION})


def test_a_missing_capability_is_a_skip_with_its_remedy_and_raises_nothing(bench: Bench) -> None:
    ran = bench.run(NEEDY, "'demo.b', fake.good", raiser=FakeRaiser(lacking=LACKS))
    assert ran.record("demo.a").ending is Ending.SKIP
    assert ran.record("demo.a").reason == "no provider can do this here (install an engine)"
    assert ran.raiser.did == ["raise c1 with 1 mons", "close c1"]
    assert ran.result.ret == 1, "nobody expects this skip"
    assert ran.archive.manifest["unexpected_skips"] == ["demo.a: no provider can do this here (install an engine)"]


EXPECTED = """
[[skip]]
scenario = "demo.*"
tiers = ["{tier}"]
because = "{because}"
reason = "There is no engine on the smallest machines."
"""


@pytest.mark.parametrize(
    ("tier", "because", "code"),
    [("quick", "no provider can do this", 0), ("full", "no provider can do this", 1), ("quick", "another reason", 1)],
)
def test_only_expected_skips_pass(bench: Bench, tier: str, because: str, code: int) -> None:
    skips = bench.pytester.path / "ci/expected-skips.toml"
    skips.parent.mkdir()
    skips.write_text(EXPECTED.format(tier=tier, because=because))
    ran = bench.run(NEEDY, "'demo.b', fake.good", raiser=FakeRaiser(lacking=LACKS))
    assert ran.result.ret == code


def test_a_scenario_of_another_release_is_skipped_with_the_reason(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.good, only_releases={'tentacle': 'the command is new'}")
    assert ran.record("demo.a").reason == "not for reef: the command is new"
    assert ran.raiser.did == []


def test_rerun_takes_what_did_not_pass_and_the_seed(bench: Bench) -> None:
    lines = (
        "'demo.good', fake.good",
        "'demo.wrong', fake.wrong",
        "'demo.silent', fake.silent",
        "'demo.broken', fake.lab_trouble",
        "'demo.lacking', fake.lacking",
    )
    first = bench.run(*lines, archive="first", args="--seed 42")
    again = bench.run(*lines, archive="again", args=f"--rerun-failed {first.directory}")
    assert list(again.endings) == ["demo.wrong", "demo.silent", "demo.broken"]
    assert again.archive.manifest["seed"] == 42
    assert f"--rerun-failed {first.directory}" in again.archive.manifest["replay"]


def test_one_seed_gives_one_choice_whatever_else_runs(bench: Bench) -> None:
    def drawn(archive: str, *lines: str, seed: int) -> Any:
        ran = bench.run(*lines, archive=archive, args=f"--seed {seed}")
        return next(e.data["got"] for e in ran.archive.of("demo.x") if e.kind == "observation")

    alone = drawn("a", "'demo.x', fake.drawing", seed=7)
    assert drawn("b", "'demo.w', fake.drawing", "'demo.x', fake.drawing", seed=7) == alone
    assert drawn("c", "'demo.x', fake.drawing", seed=8) != alone


def test_the_seed_is_printed_with_the_command_that_replays_it(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.good", args="--seed 99 --lab local")
    ran.result.stdout.fnmatch_lines(
        ["cephlab: seed 99; replay: *cephlab gate --tier quick --seed 99 --lab local --release reef --suite all"]
    )


def test_seeds_differ_when_none_is_given(bench: Bench) -> None:
    seeds = {bench.run("'demo.a', fake.good", archive=name).archive.manifest["seed"] for name in ("a", "b")}
    assert len(seeds) == 2


# Refusals

REFUSALS = (
    (["'demo.a', fake.good"], FakeRaiser(refused=SpecError("9 OSDs do not fit")), "", "9 OSDs do not fit"),
    (["'demo.a', fake.good"], FakeRaiser(), "--lab moon", "unknown provider 'moon'"),
    (["'demo.a', fake.good", "'demo.a', fake.wrong"], FakeRaiser(), "", "two scenarios have one name"),
    (["'demo.a', fake.good"], FakeRaiser(), "--rerun-failed nowhere", "nowhere is not an archive"),
    (["'demo.a', fake.good"], FakeRaiser(), "--release reef --image some/ceph:1", "--release and --image cannot be"),
)


@pytest.mark.parametrize(("lines", "raiser", "args", "sentence"), REFUSALS)
def test_bad_input_is_a_usage_error_before_anything_starts(
    bench: Bench, lines: list[str], raiser: FakeRaiser, args: str, sentence: str
) -> None:
    ran = bench.run(*lines, raiser=raiser, args=args)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    ran.result.stderr.fnmatch_lines([f"ERROR: *{sentence}*"])
    assert raiser.did == []
    assert not ran.directory.exists()


def test_an_archive_folder_in_use_is_refused(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.good")
    assert bench.run("'demo.a', fake.good").result.ret == pytest.ExitCode.USAGE_ERROR
    assert altered(ran.directory) == []


# The archive


def test_an_archive_is_sealed_judged_the_same_and_free_of_keys(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.good", "'demo.b', fake.wrong", "'demo.c', fake.silent")
    assert altered(ran.directory) == []
    assert [(one.scenario, one.differs) for one in judge(ran.archive)] == [
        ("demo.a", False),
        ("demo.b", False),
        ("demo.c", False),
    ]
    log = ran.directory / str(ran.record("demo.b").logs) / "n0-osd.0.log"
    assert log.read_text() == "all is well\nkey = [key removed]\n"
    holding = [path for path in ran.directory.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert holding == []


def test_only_what_did_not_pass_leaves_logs(bench: Bench) -> None:
    ran = bench.run("'demo.a', fake.good", "'demo.b', fake.wrong")
    assert [path.name for path in (ran.directory / "logs").iterdir()] == ["demo.b"]


def test_junit_says_failure_error_and_skip(bench: Bench) -> None:
    lines = ("'demo.a', fake.wrong", "'demo.b', fake.lab_trouble", "'demo.c', fake.lacking", "'demo.d', fake.silent")
    ran = bench.run(*lines, args="--junitxml junit.xml")
    text = (bench.pytester.path / "junit.xml").read_text()
    assert 'errors="1" failures="2" skipped="1" tests="4"' in text
    assert "inconclusive: the scenario observed nothing" in text
    assert ran.result.ret == 1


def test_an_interrupted_run_removes_its_cluster_and_says_so(bench: Bench) -> None:
    raiser = FakeRaiser()
    lines = "scenario('demo.a', fake.good), scenario('demo.b', fake.interrupted), scenario('demo.c', fake.good), "
    bench.pytester.makepyfile(test_demo=SUITE.format(lines=lines))
    directory = bench.pytester.path / "archive"
    run = bench.pytester.inline_run(
        *PLUGINS,
        f"--archive={directory}",
        f"--home={bench.pytester.path / 'home'}",
        "--keep",
        plugins=[raiser],
        no_reraise_ctrlc=True,
    )
    assert run.ret == pytest.ExitCode.INTERRUPTED
    assert raiser.did == ["raise c1 with 1 mons", "close c1"], "an interruption is no failure to look at"
    archive = read_archive(directory)
    assert archive.manifest["state"] == "interrupted"
    assert [(r.scenario, r.ending, r.reason) for r in archive.records] == [
        ("demo.a", Ending.PASS, "2 observations hold"),
        ("demo.b", Ending.INCONCLUSIVE, "it was interrupted"),
    ]
    assert altered(directory) == []


def test_an_archive_can_be_read_while_its_run_goes_on(bench: Bench) -> None:
    bench.run("'demo.a', fake.good")
    lines = (bench.pytester.path / "archive/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["began", "observation", "observation", "ended", "aftermath"]
