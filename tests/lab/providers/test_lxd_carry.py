"""A volume carried between two LXDs, as far as what is asked of either: who listens, what is sent, what is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.lxd.lab import carry
from cephlab.lab.providers.lxd.server import Server
from cephlab.lab.providers.lxd.transport import Address

SECRETS = {"control": "c0ffee", "fs": "feed"}


@dataclass
class Answer:
    """What a call answers at once."""

    operation: str

    def json(self) -> dict[str, Any]:
        return {"type": "async", "metadata": {"id": self.operation, "metadata": SECRETS}}


@dataclass
class Machine:
    """An LXD that writes down what it is asked. broken: the operations that fail."""

    name: str
    address: Address
    said: list[tuple[str, str, Any]]
    broken: set[str] = field(default_factory=set)
    pool: str = "cephlab"

    def api(self, project: str) -> Machine:
        assert project == "cephlab-r1"
        return self

    storage_pools = property(lambda self: {"cephlab": self})
    volumes = property(lambda self: self)
    custom = property(lambda self: self)

    def __getitem__(self, volume: str) -> Machine:
        assert volume == "d0"
        return self

    def get(self, _doing: str, _node: Any) -> dict[str, Any]:
        return {"config": {"volatile.idmap.last": "[]"}}

    def post(self, json: Any) -> Answer:
        self.said.append((self.name, "post", json))
        return Answer(f"op-{self.name}")

    def delete(self) -> Answer:
        self.said.append((self.name, "delete", None))
        return Answer(f"delete-{self.name}")

    def wait(self, _doing: str, response: Answer) -> None:
        self.wait_for("", response.operation)

    def wait_for(self, _doing: str, operation: str) -> None:
        if operation in self.broken:
            raise LabBroken(f"LXD failed while {operation}")


@pytest.fixture
def said() -> list[tuple[str, str, Any]]:
    return []


@pytest.fixture
def here(said: list[tuple[str, str, Any]]) -> Machine:
    return Machine("here", Address("unix:///run/unix.socket"), said)


@pytest.fixture
def there(said: list[tuple[str, str, Any]], tmp_path: Path) -> Machine:
    certificate = tmp_path / "arm1.crt"
    certificate.write_text("CERTIFICATE")
    return Machine("there", Address("https://arm1:8443", server=certificate), said)


def move(source: Machine, target: Machine) -> None:
    carry(cast("Server", source), cast("Server", target), "cephlab-r1", "d0")


END = {
    "operation": "https://arm1:8443/1.0/operations/op-there",
    "certificate": "CERTIFICATE",
    "secrets": SECRETS,
}


def test_a_machine_on_the_network_waits_for_one_on_a_socket(
    here: Machine, there: Machine, said: list[tuple[str, str, Any]]
) -> None:
    move(here, there)
    (first, _, made), (second, _, sent), last = said
    assert (first, second, last) == ("there", "here", ("here", "delete", None))
    assert made["source"] == {"type": "migration", "mode": "push"}
    assert made["config"] == {"volatile.idmap.last": "[]"}
    assert sent == {"name": "d0", "migration": True, "target": END}


def test_a_machine_on_a_socket_fetches_from_the_network(
    here: Machine, there: Machine, said: list[tuple[str, str, Any]]
) -> None:
    move(there, here)
    (first, _, sent), (second, _, made), last = said
    assert (first, second, last) == ("there", "here", ("there", "delete", None))
    assert sent == {"name": "d0", "migration": True}
    assert made["source"] == {"type": "migration", "mode": "pull", **END}


@pytest.mark.parametrize("operation", ["op-here", "op-there"])
def test_a_volume_that_did_not_arrive_whole_stays_where_it_was(
    here: Machine, there: Machine, said: list[tuple[str, str, Any]], operation: str
) -> None:
    here.broken = there.broken = {operation}
    with pytest.raises(LabBroken, match=operation):
        move(here, there)
    assert [(name, what) for name, what, _ in said if what == "delete"] == [("there", "delete")]
