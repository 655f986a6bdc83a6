"""Options of Ceph: what the database and the daemons say together, and what is put back."""

from collections.abc import Sequence

import pytest

from cephlab.lab.tunables.options import CephOptions, concerns
from cephlab.lab.tunables.settings import Finding, Kind, Setting, State
from tests.fake_machine import FakeClient

CAP, CACHE = "osd_client_message_cap", "rbd_cache"
KNOWN = {CAP: "256", CACHE: "true", "debug_osd": "1/5"}
DAEMONS = ("mon.n0", "osd.0", "osd.1")


def option(key: str, value: str, section: str = "osd") -> Setting:
    return Setting(Kind.CEPH, key, value, "s", section)


class Watched(FakeClient):
    """A cluster that keeps what it was asked."""

    def __init__(self, known: dict[str, str], database: dict[tuple[str, str], str] | None = None) -> None:
        super().__init__(known, database or {})
        self.asked: list[str] = []

    def mon(self, prefix: str, **arguments: object) -> object:
        self.asked.append(prefix)
        return super().mon(prefix, **arguments)

    def tell(self, target: str, prefix: str, **arguments: object) -> object:
        self.asked.append(f"{target} {prefix}")
        return super().tell(target, prefix, **arguments)


def judged(client: FakeClient, *settings: Setting, daemons: Sequence[str] = DAEMONS) -> list[tuple[State, str, str]]:
    findings: list[Finding] = CephOptions(client, daemons).judge(settings)
    assert [finding.setting for finding in findings] == list(settings)
    assert {finding.where for finding in findings} <= {"the cluster"}
    return [(finding.state, finding.got, finding.why) for finding in findings]


@pytest.mark.parametrize(
    ("section", "daemon", "reads"),
    [
        ("global", "mon.n0", True),
        ("osd", "osd.1", True),
        ("mds", "mds.a.b", True),
        ("osd.1", "osd.1", True),
        ("osd.1", "osd.10", False),
        ("osd", "mon.n0", False),
        ("client", "osd.1", False),
    ],
)
def test_a_daemon_reads_the_options_of_all_of_its_kind_and_of_itself(section: str, daemon: str, reads: bool) -> None:
    assert concerns(option(CAP, "1", section), daemon) is reads
    assert not concerns(Setting(Kind.SYSCTL, CAP, "1", "s", section), daemon)


def test_only_daemons_that_read_an_option_are_asked_and_ceph_describes_it_once() -> None:
    client = Watched(dict(KNOWN))
    judged(client, option(CAP, "256"), option(CAP, "256", "osd.0"))
    assert client.asked == ["config dump", "osd.0 config show", "osd.1 config show", "config help"]
    client.asked.clear()
    assert judged(client) == []
    assert client.asked == []


def test_daemons_that_differ_are_named_with_their_values() -> None:
    client = FakeClient(dict(KNOWN), {("osd.1", CAP): "8"})
    everywhere = option(CAP, "9", "global")
    assert judged(client, everywhere) == [(State.DRIFT, "256 in mon.n0, osd.0; 8 in osd.1", "")]
    assert judged(client, option(CAP, "256")) == [(State.DRIFT, "8 in osd.1", "")]


@pytest.mark.parametrize(
    ("stored", "fixed", "why"),
    [
        (
            "9",
            False,
            "the configuration database has it; the daemons' ceph.conf, command line or scheduler overrides it",
        ),
        ("9", True, "the configuration database has it; daemons use it after their next restart"),
        ("8", True, ""),
        (None, True, ""),
    ],
)
def test_why_daemons_differ_is_told_only_of_what_the_database_has(stored: str | None, fixed: bool, why: str) -> None:
    client = FakeClient(dict(KNOWN), {("osd", CAP): stored} if stored else {}, {CAP: "7"}, {CAP} if fixed else set())
    assert judged(client, option(CAP, "9"), daemons=("osd.0",)) == [(State.DRIFT, "7 in osd.0", why)]


def test_an_option_that_no_daemon_reads_is_what_the_database_says() -> None:
    client = FakeClient(dict(KNOWN), {("client", CACHE): "0"})
    sets = [option(CACHE, value, "client") for value in ("false", "true")]
    assert judged(client, *sets) == [(State.SET, "false", ""), (State.DRIFT, "0", "")]
    assert judged(client, option(CAP, "9", "client")) == [(State.DRIFT, "not set", "")]
    assert judged(client, option("gone", "9")) == [(State.MISSING, "", "this release of Ceph has no such option")]


def test_an_option_that_a_daemon_does_not_show_is_not_compared_there() -> None:
    class Quiet(FakeClient):
        def tell(self, target: str, prefix: str, **arguments: object) -> object:
            return {} if target == "osd.1" else super().tell(target, prefix, **arguments)

    assert judged(Quiet(dict(KNOWN)), option(CAP, "256")) == [(State.SET, "256", "")]
    assert judged(Quiet(dict(KNOWN)), option(CAP, "9")) == [(State.DRIFT, "256 in osd.0", "")]


def test_an_entry_for_some_daemons_alone_is_not_the_options_value() -> None:
    """The made-up database has one of debug_osd for devices of one class."""
    options = CephOptions(FakeClient(dict(KNOWN), {("osd", CAP): "8"}), DAEMONS)
    assert options.database() == {("osd", CAP): "8"}
    assert options.before([option(CAP, "9"), option("debug_osd", "1")]) == {
        ("osd", CAP): "8",
        ("osd", "debug_osd"): None,
    }


def test_a_refusal_is_its_first_line_and_stops_nothing() -> None:
    client = FakeClient(dict(KNOWN))
    refused = CephOptions(client, DAEMONS).apply([option(CACHE, "nonsense"), option(CAP, "9")])
    assert refused == {("osd", CACHE): "error parsing value"}
    assert client.database == {("osd", CAP): "9"}


def test_only_what_differs_is_put_back_and_what_is_not_is_told() -> None:
    class Stubborn(Watched):
        def mon(self, prefix: str, **arguments: object) -> object:
            if prefix == "config rm" and arguments == {"who": "osd", "name": CACHE}:
                self.asked.append(prefix)
                return None
            return super().mon(prefix, **arguments)

    client = Stubborn(dict(KNOWN), {("osd", CAP): "9", ("osd", CACHE): "false", ("client", CACHE): "1"})
    was = {("client", CACHE): "1", ("mon", CAP): None, ("osd", CAP): "8", ("osd", CACHE): None}
    errors = CephOptions(client, DAEMONS).restore(was)
    assert errors == {("osd", CACHE): "the cluster: osd/rbd_cache was None and is now 'false'"}
    assert client.asked == ["config dump", "config set", "config rm", "config dump"]
    assert client.database == {("osd", CAP): "8", ("osd", CACHE): "false", ("client", CACHE): "1"}
