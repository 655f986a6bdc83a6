"""The table of planted defects fits its sources and the suites, and a run over one is read as it ended."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from cephlab.lab.archive.archive import Ending, Record
from cephlab.lab.spec.arch import Arch
from tests.contract.planting import meant
from tests.planted import HERE, PLANTED, Planted
from tests.planted.__main__ import dealt, item, judged, score, tried

LEAK = Planted("leak", "leak_send.c", Arch.X86_64, "daemons", ("baseline.growth",))


def test_each_source_is_planted_and_each_defect_has_its_source() -> None:
    sources = {defect.source for defect in PLANTED} - {""}
    assert sorted(sources) == sorted(path.name for path in HERE.glob("*.c"))
    assert all(bool(defect.source) != bool(defect.options) for defect in PLANTED)
    names = [defect.name for defect in PLANTED]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("defect", PLANTED, ids=lambda defect: defect.name)
def test_what_a_defect_is_found_by_exists(defect: Planted) -> None:
    assert defect.finds
    for name in defect.finds:
        suite = import_module(f"cephlab.suites.{name.partition('.')[0]}")
        assert name in [scenario.name for scenario in suite.SCENARIOS]
        module = import_module(f"cephlab.suites.{item(name).split('/')[1]}.{Path(item(name).partition('::')[0]).stem}")
        assert hasattr(module, item(name).partition("::")[2].partition("[")[0])
        assert item(name).endswith(f"[{name}]")


def record(name: str, ending: Ending, began_s: float, reason: str = "") -> Record:
    return Record(name, name.partition(".")[0], ending, reason, began_s=began_s, seconds=5.0)


def test_the_first_failure_is_what_found_it() -> None:
    records = [
        record("interop.a", Ending.PASS, 1),
        record("interop.b", Ending.SKIP, 6),
        record("interop.c", Ending.ERROR, 7, "the disk is full"),
        record("interop.d", Ending.FAIL, 20, "osd.0 keeps memory"),
        record("interop.e", Ending.FAIL, 30, "another"),
    ]
    hunt = judged(LEAK, records)
    assert (hunt.ran, hunt.by, hunt.at_s, hunt.reason) == (4, ("interop.d", "interop.e"), 25.0, "osd.0 keeps memory")


def test_trouble_of_the_lab_finds_nothing() -> None:
    hunt = judged(LEAK, [record("interop.c", Ending.ERROR, 7), record("interop.d", Ending.INCONCLUSIVE, 9)])
    assert (hunt.ran, hunt.by, hunt.at_s) == (2, (), 0.0)


def test_the_score_is_by_tier_and_names_what_was_not_found() -> None:
    hunts = [
        judged(LEAK, [record("baseline.growth", Ending.FAIL, 1)]),
        judged(replace(LEAK, name="late"), [record("interop.walk-rbd-long", Ending.FAIL, 1)]),
        judged(replace(LEAK, name="never"), [record("interop.roles", Ending.PASS, 1)]),
    ]
    assert [each.tier for each in hunts] == ["quick", "full", ""]
    assert list(score(hunts)) == ["the quick tier found 1 of 3, quick and full together 2", "not found: never"]


@pytest.mark.parametrize(
    ("finds", "named", "tier"),
    [
        (("baseline.growth",), True, "quick"),
        (("baseline.growth", "interop.walk-rbd-long"), True, "full"),
        (("interop.walk-rbd-long",), False, "quick"),
    ],
)
def test_named_scenarios_run_in_their_tier(
    finds: tuple[str, ...], tier: str, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    ran: list[list[str]] = []

    def run(argv: list[str], **_: object) -> SimpleNamespace:
        ran.append(argv)
        return SimpleNamespace(code=4, stdout="no tests ran", stderr="")

    monkeypatch.setattr("cephlab.lab.base.process.run", run)
    hunt = tried(replace(LEAK, finds=finds), "quick", ("interop",), named=named)
    assert ran[0][ran[0].index("--tier") + 1] == tier
    assert (hunt.by, hunt.reason.splitlines()[0]) == ((), "nothing ran over leak"), "the next defect still runs"


def test_each_defect_is_in_one_part() -> None:
    parts = [dealt(PLANTED, f"{number}/4") for number in range(1, 5)]
    assert sorted(each.name for part in parts for each in part) == sorted(each.name for each in PLANTED)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    ("program", "into", "has_it"),
    [
        ("/usr/bin/ceph-osd", "daemons", True),
        ("ceph-osd", "clients", False),
        ("rados", "daemons", False),
        ("rados", "clients", True),
        ("radosgw", "both", True),
        ("rbd", "both", True),
        ("ceph-osd", "osd", True),
        ("ceph-mon", "osd", False),
        ("rados", "osd", False),
    ],
)
def test_a_defect_is_in_the_programs_that_it_is_for(program: str, into: str, has_it: bool) -> None:
    defect = Planted("leak", "leak_send.c", Arch.X86_64, into, ())  # type: ignore[arg-type]
    assert meant(defect, [program, "-i", "0"]) is has_it
