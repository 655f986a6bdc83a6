"""What existed before the run is not touched although its name is on the list, and what nobody has is refused."""

from typing import Any

import pytest

from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.permit import Permit
from tests.lab.cluster.test_attach_guard import permits

PERMIT = Permit(pools=frozenset({"rule", "profile", "free", "None"}), daemons=frozenset({"osd.3"}))
EXISTING = Existing(profiles=frozenset({"profile-profile"}), rules=frozenset({"rule", "rule-profile"}))
GUARD = Guard(PERMIT, EXISTING, lambda: {7: "free"})


def to_mon(prefix: str, **arguments: Any) -> dict[str, Any]:
    return {"op": "command", "target": "mon", "command": {"prefix": prefix, **arguments}}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (to_mon("osd crush rule rm", name="rule"), "'rule' of the command 'osd crush rule rm' existed before"),
        (to_mon("osd erasure-code-profile rm", name="profile-profile"), "'profile-profile' of the command"),
        (to_mon("pg deep-scrub", pgid="8.0"), "to PG 8.0, which belongs to no pool"),
        (to_mon("pg deep-scrub", pgid="8.7.0"), "to PG 8.7.0, which belongs to no pool"),
        (to_mon("pg deep-scrub", pgid="all"), "to PG all, which belongs to no pool"),
        (to_mon("osd down", ids=["4"]), "the command 'osd down' of osd.4, which is not on the list"),
        ({"op": "command", "target": "mgr", "command": {"prefix": "fs fail"}}, "the command 'fs fail', which is not"),
        ({"op": "command", "target": "mon", "command": {}}, "the command '', which is not known"),
        ({"pool": None}, "the operation '', which names no pool"),
    ],
)
def test_it_is_refused_by_its_name(request_: dict[str, Any], said: str) -> None:
    with pytest.raises(NotPermitted) as refused:
        GUARD.request(request_)
    assert said in refused.value.what
    assert refused.value.detail == "nothing was done"


@pytest.mark.parametrize(
    "request_",
    [
        # A rule may have the name of a profile that was there, and a profile that of a rule.
        to_mon("osd crush rule create-simple", name="profile-profile"),
        to_mon("osd erasure-code-profile set", name="rule-profile"),
        to_mon("osd crush rule rm", name="free"),
        to_mon("pg deep-scrub", pgid="7.1f"),
        {"op": "command", "target": "mgr", "command": {"prefix": "status"}},
    ],
)
def test_what_is_new_and_on_the_list_is_free(request_: dict[str, Any]) -> None:
    assert permits(GUARD, request_)


@pytest.mark.parametrize(
    "request_", [to_mon("osd erasure-code-profile set", name="free-profile"), to_mon("osd crush rule rm", name="free")]
)
def test_on_a_cluster_that_had_nothing_the_list_alone_decides(request_: dict[str, Any]) -> None:
    assert permits(Guard(PERMIT, Existing(), dict), request_)


def test_the_hint_names_the_key_that_would_allow_it_or_another_cluster() -> None:
    with pytest.raises(NotPermitted) as unlisted:
        GUARD.pool("theirs")
    assert unlisted.value.hint == "allow it with --may-break: pools = ['theirs']"
    with pytest.raises(NotPermitted) as existing:
        GUARD.request(to_mon("osd crush rule rm", name="rule"))
    assert existing.value.hint == "run it on a cluster that the lab made"
