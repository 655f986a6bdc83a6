"""A client whose caps end at a directory: the metadata server refuses what it does beside that directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from cephlab.lab.base.errors import try_all
from cephlab.lab.ceph import conf, keyring
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.services.mds import FILE_SYSTEM
from cephlab.lab.spec.arch import Arch
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, served_by
from cephlab.suites.interop.walks.live import Line, lines

NAME = "client.bounded"
PLACE = "bounded"
CAPS = {
    "mon": "allow r",
    "mds": f"allow r, allow rw path=/{PLACE}",
    "osd": f"allow rw tag cephfs data={FILE_SYSTEM}",
}
CONTENT = {"seed": 1, "size": 100, "offset": 0}


def run(stage: Stage) -> None:
    """Write, make and delete, each inside the directory and beside it."""
    cluster = stage.cluster
    served_by(cluster, Arch.X86_64)
    host = cluster.client.host
    admin = {"conf": str(conf.conf_path(host)), "name": cluster.client_name}
    with lines("cephfs", {"admin": (host, admin)}, cluster.patience) as sides:
        sides["admin"].begin(PLACE)
        sides["admin"].ask("write", {"path": "../beside", **CONTENT})
        with bounded(cluster) as side:
            side.begin(PLACE)
            answers = {
                where: {
                    "write": side.ask("write", {"path": f"{where}new", **CONTENT}),
                    "mkdir": side.ask("mkdir", {"path": f"{where}directory"}),
                    "truncate": side.ask("truncate", {"path": f"{where}{old}", "size": 1}),
                    "unlink": side.ask("unlink", {"path": f"{where}{old}"}),
                }
                for where, old in (("", "new"), ("../", "beside"))
            }
    for where, what in (("", "inside its directory"), ("../", "beside its directory")):
        wanted = dict.fromkeys(answers[where], {"refused": "EACCES"} if where else None)
        stage.recorder.observe(f"answers to a client {what}", got=answers[where], wanted=wanted, of=len(wanted))


@contextmanager
def bounded(cluster: Cluster) -> Iterator[Line]:
    """A client with CAPS on this machine's own architecture."""
    host = cluster.client.host
    entity = keyring.Entity(NAME, keyring.new_key(own(cluster).deployment.admin.key), CAPS)
    key, settings = host.directory / "bounded.keyring", host.directory / "bounded.conf"
    cluster.client.command("mon", "auth import", payload=keyring.render([entity]))
    try:
        host.push(keyring.render([entity]), key, mode=0o600)
        host.push(host.read(conf.conf_path(host)) + f"\n[{NAME}]\nkeyring = {key}\n".encode(), settings)
        with lines("cephfs", {"bounded": (host, {"conf": str(settings), "name": NAME})}, cluster.patience) as sides:
            yield sides["bounded"]
    finally:
        files = [partial(host.remove, file) for file in (key, settings)]
        try_all([*files, partial(cluster.client.mon, "auth rm", entity=NAME)])


SCENARIOS = (
    Scenario(
        name="cephfs.caps",
        goal="A client whose caps let it write in one directory changes nothing beside it.",
        method="A client with `allow rw path=` of one directory writes, makes and deletes there, then beside it.",
        run=run,
        topology=PAIR,
        sees=("answers to a client .* its directory",),
        expects=EXPECTED,
    ),
)
