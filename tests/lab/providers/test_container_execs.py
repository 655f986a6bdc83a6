"""What the engine answers when it is asked about a command: only some of its errors say that the command is gone."""

from types import SimpleNamespace
from typing import Any, cast

import docker
import docker.errors
import pytest
import requests

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.container import execs
from cephlab.lab.providers.container.execs import ContainerRef
from cephlab.lab.providers.container.spawned import ContainerProcess
from cephlab.lab.providers.engine.process import seen_as


class RefusingApi:
    """An engine that answers every question about a command with one error. signalled: what was started instead."""

    def __init__(self, status: int, words: str) -> None:
        self._status, self._words = status, words
        self.signalled: list[list[str]] = []

    def exec_inspect(self, _exec: str) -> dict[str, Any]:
        response = requests.Response()
        response.status_code = self._status
        raise docker.errors.APIError("refused", response=response, explanation=self._words)

    def exec_create(self, _name: str, argv: list[str], **_options: Any) -> dict[str, Any]:
        self.signalled.append(argv)
        return {"Id": "e1"}

    def exec_start(self, _exec: str) -> None: ...


def container(api: RefusingApi) -> ContainerRef:
    client = cast("docker.DockerClient", SimpleNamespace(api=api))
    return ContainerRef(client, "cephlab-r.n0", "n0", local=True)


def process(api: RefusingApi) -> ContainerProcess:
    return ContainerProcess(container(api), {"container": "cephlab-r.n0", "exec": "e0", "token": "t", **seen_as(None)})


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "No such exec instance"),
        (409, "container is not running"),
        (500, "retrieving exec session e0: no such exec session"),
        (500, "container cephlab-r.n0 has already been removed: container has already been removed"),
    ],
)
def test_a_daemon_that_the_engine_no_longer_knows_has_ended(status: int, words: str) -> None:
    assert not process(RefusingApi(status, words)).alive()


@pytest.mark.parametrize(("status", "words"), [(500, "layer does not exist"), (503, "no such exec session")])
def test_an_engine_in_trouble_says_nothing_about_a_daemon(status: int, words: str) -> None:
    with pytest.raises(LabBroken, match="failed while inspecting a command") as caught:
        process(RefusingApi(status, words)).alive()
    assert words in str(caught.value)


def test_a_command_is_killed_by_its_token_when_the_engine_cannot_tell_its_pid() -> None:
    api = RefusingApi(500, "layer does not exist")
    with pytest.raises(LabBroken, match="inspecting"):
        execs.kill_all(container(api), "e0", "the-token")
    assert len(api.signalled) == 1
    assert any("the-token" in word for word in api.signalled[0])
