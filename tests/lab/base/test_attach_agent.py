"""The lab's agent on a machine of an attached cluster is the lab's, and one of a scenario's own is a program."""

from pathlib import Path

import pytest

from cephlab.lab.ceph.client import AGENT_SOURCE
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.cluster.attach.offered import OtherEntity
from tests.lab.base.test_attach_offered import machine

ARGUMENTS = ("/etc/ceph/ceph.conf", "client.admin", "{}")


def test_an_agent_of_a_scenarios_own_is_a_program_like_any_other(tmp_path: Path) -> None:
    for listed in (True, False):
        here, guarded = machine(tmp_path, listed=listed)
        guarded.push(b"print('mine')", guarded.directory / "agent.py")
        with pytest.raises(NotPermitted):
            guarded.push(b"print('mine')", here.directory / "agent.py")
        for folder in (guarded.directory, here.directory):
            with pytest.raises(NotPermitted):
                guarded.channel(("python3", str(folder / "agent.py"), *ARGUMENTS))
        assert here.told == []


def test_the_labs_agent_is_the_labs(tmp_path: Path) -> None:
    here, guarded = machine(tmp_path, listed=False)
    script, channel = guarded.start_agent(ARGUMENTS)
    assert script == here.directory / "agent.py"
    assert here.read(script) == AGENT_SOURCE.read_bytes()
    assert here.told == [["python3", str(script), *ARGUMENTS]]
    with pytest.raises(NotPermitted, match="auth get"):
        channel.ask(b'{"op": "command", "target": "mon", "command": {"prefix": "auth get"}}', timeout_s=1)


def test_no_socket_leads_to_the_labs_agent(tmp_path: Path) -> None:
    here, guarded = machine(tmp_path)
    with (
        pytest.raises(OtherEntity, match="in the lab's own folder"),
        guarded.reaching(guarded, here.directory / "agent", guarded.directory / "s"),
    ):
        pytest.fail("it was reached")


def test_a_process_is_looked_up_where_the_list_has_the_machine(tmp_path: Path) -> None:
    _, guarded = machine(tmp_path, listed=False)
    with pytest.raises(NotPermitted, match="not on the list"):
        guarded.find({"pid": 1})
