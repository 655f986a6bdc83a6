"""Deep scrubs of several pools: all are asked for before any is waited for, and none is missed."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import NotReached
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.scrub import deep_scrub, deep_scrub_all

PGS = {"still": ("1.0", "1.1"), "live": ("2.0",)}


class Scrubber:
    """Two pools, whose PGs are scrubbed once both pools were asked for. deaf: PGs that no scrub reaches.

    young: at which looks at statistics, counted from 0, the manager has just started and knows none.
    """

    patience = 1.0

    def __init__(self, deaf: Sequence[str] = (), young: Sequence[int] = ()) -> None:
        self.asked: list[str] = []
        self.deaf = deaf
        self.young = young
        self.looks = 0
        self.client = SimpleNamespace(mon=self.mon)

    def check_daemons(self) -> None:
        """All are alive."""

    def mon(self, command: str, **given: str) -> Mapping[str, Any]:
        if command == "pg deep-scrub":
            self.asked.append(given["pgid"])
            return {}
        if command == "osd dump":
            return {"pools": [{"pool_name": name, "pool": ids[0][0], "pg_num": len(ids)} for name, ids in PGS.items()]}
        assert command == "pg ls-by-pool"
        self.looks += 1
        if self.looks - 1 in self.young:
            return {"pg_stats": []}
        rows = [{"pgid": pgid, "last_deep_scrub_stamp": self._stamp(pgid)} for pgid in PGS[given["poolstr"]]]
        return {"pg_stats": rows}

    def _stamp(self, pgid: str) -> str:
        return "now" if pgid in self.asked and pgid not in self.deaf and "2.0" in self.asked else "before"


def test_every_pool_is_asked_for_before_the_first_is_waited_for() -> None:
    """Were they taken one by one, the first would never be scrubbed here."""
    cluster = Scrubber()
    scrubbed = deep_scrub_all(cast("Cluster", cluster), list(PGS))
    assert scrubbed == {pool: list(pgids) for pool, pgids in PGS.items()}
    assert cluster.asked == ["1.0", "1.1", "2.0"]
    assert deep_scrub(cast("Cluster", Scrubber()), "live") == ["2.0"]


@pytest.mark.parametrize("young", [(0,), (1, 2)], ids=["when it is asked", "while it is waited for"])
def test_a_manager_that_has_just_started_does_not_hide_a_pg(young: Sequence[int]) -> None:
    cluster = Scrubber(young=young)
    assert deep_scrub(cast("Cluster", cluster), "live") == ["2.0"]
    assert cluster.asked == ["2.0"]
    assert cluster.looks == 2 + len(young)


def test_a_pg_that_is_not_scrubbed_is_waited_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.faults.scrub._SCRUB_S", 0.05)
    with pytest.raises(NotReached, match="deep-scrub of 2 PGs of still"):
        deep_scrub_all(cast("Cluster", Scrubber(deaf=["1.1"])), list(PGS))
