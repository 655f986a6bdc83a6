"""A machine of an attached cluster offers the run's own entity and no other's key; the lab's folder is the lab's alone.

The machine is this one: programs and links are real, below a folder of the test's.
"""

import configparser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabError
from cephlab.lab.base.process import Result
from cephlab.lab.cluster.attach.cluster import limited_conf
from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.guarded import GuardedHost
from cephlab.lab.cluster.attach.offered import Offered, OtherEntity
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.providers.host import Host, preloading
from cephlab.lab.spec.arch import host_arch

ENTITY = "client.cephlab-r1"
OWN = PurePosixPath("/var/tmp/cephlab-x/n/own")
OFFERED = Offered("n", OWN, ENTITY)
ADMIN_KEYS = "/etc/ceph/ceph.client.admin.keyring"
LAB_KEYS = str(OWN.parent / "guarded/keyring")


class Here:
    """This machine, entered without ssh; told: every program that it was given, environment: of the last."""

    def __init__(self, folder: Path) -> None:
        self.name = "n"
        self.arch = host_arch()
        self.address = "127.0.0.1"
        self.root = PurePosixPath("/")
        self.emulated = False
        self.directory = PurePosixPath(folder) / "cephlab-x" / "n"
        self.told: list[Sequence[str]] = []
        self.environment: Mapping[str, str] | None = None

    def run(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> Result:
        if argv[0] != "realpath":
            self.told.append(argv)
        given = {key: options[key] for key in ("stdin", "check") if key in options}
        return process.run(argv, env=env or {}, **given)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        self.told.append(argv)
        self.environment = env

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **_options: Any) -> None:
        self.channel(argv, env=env)

    def interactive(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **_options: Any) -> None:
        self.channel(argv, env=env)

    def push(self, source: bytes | Path, target: PurePosixPath, *, mode: int = 0o644) -> None:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).write_bytes(source if isinstance(source, bytes) else source.read_bytes())

    def pull(self, source: PurePosixPath, target: Path) -> None:
        target.write_bytes(self.read(source))

    def read(self, source: PurePosixPath) -> bytes:
        return Path(source).read_bytes()

    def exists(self, path: PurePosixPath) -> bool:
        return Path(path).exists()

    def make_directory(self, path: PurePosixPath) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def remove(self, path: PurePosixPath) -> None:
        Path(path).unlink()


def machine(folder: Path, *, listed: bool = True, entity: str = ENTITY) -> tuple[Here, GuardedHost]:
    """A machine with the lab's keyring and agent on it."""
    here = Here(folder)
    for name in ("guarded/keyring", "agent.zip", "own/mine"):
        here.push(b"was there", here.directory / name)
    permit = Permit(hosts=frozenset({"n"} if listed else ()))
    return here, GuardedHost(cast("Host", here), Guard(permit, Existing(), dict), entity)


# Programs

NAMED = ("-n", ENTITY)

MISTAKES: list[tuple[Sequence[str], Mapping[str, str]]] = [
    (("ceph", "osd", "tree"), {}),
    (("/usr/bin/rados", "lspools"), {}),
    (("rbd", "-c", str(OWN / "ceph.conf"), "ls", "mine"), {}),
    (("ceph", "--id", "admin", "status"), {}),
    (("ceph", "--id=admin", "status"), {}),
    (("rbd", "--user", "boss", "ls"), {}),
    (("ceph", "-n", "client.admin", "status"), {}),
    (("ceph", "-nclient.boss", "status"), {}),
    (("ceph", "--name", "client.admin", "status"), {}),
    (("rados", "--name=client.boss", "lspools"), {}),
    (("ceph", *NAMED, "--name", "client.boss", "status"), {}),
    (("ceph", *NAMED, "--nam", "client.boss", "status"), {}),
    (("ceph", *NAMED, f"--keyr={LAB_KEYS}", "status"), {}),
    (("ceph", *NAMED, "--keyring", ADMIN_KEYS, "status"), {}),
    (("ceph", *NAMED, f"--keyring={LAB_KEYS}", "status"), {}),
    (("ceph", *NAMED, "-k", "/root/keys", "status"), {}),
    (("ceph", *NAMED, "-k/root/keys", "status"), {}),
    (("ceph", *NAMED, "--keyring", str(OWN / "../guarded/keyring"), "status"), {}),
    (("ceph", *NAMED, "--key", "AQ==", "status"), {}),
    (("ceph", *NAMED, "--keyfile=/root/key", "status"), {}),
    (("ceph", *NAMED, "-c", "/etc/ceph/ceph.conf", "status"), {}),
    (("ceph", *NAMED, "--conf=/root/other.conf", "status"), {}),
    (("ceph", *NAMED, "-c", "/root/other.conf", "status"), {}),
    (("ceph", *NAMED, "--keyring", "/root/keys", "status"), {}),
    (("rbd", *NAMED, "--user", "boss", "ls"), {}),
    (("ceph", "status", "--id"), {}),
    (("sudo", "-n", "microceph.rados", "lspools"), {}),
    (("cephfs-journal-tool", "journal", "inspect"), {}),
    (("fio", "--name=x", "--clientname=boss"), {}),
    (("fio", "--name=x", "--clientname", "admin"), {}),
    (("qemu-img", "info", "rbd:mine/image:id=admin"), {}),
    (("program",), {"CEPH_ARGS": "--id admin"}),
    (("program",), {"CEPH_ARGS": f"--keyring={ADMIN_KEYS}"}),
    (("program",), {"CEPH_ARGS": "--key AQ=="}),
    (("program",), {"CEPH_KEYRING": "/root/keys"}),
    (("program",), {"CEPH_KEYRING": str(OWN / "../guarded/keyring")}),
    (("program",), {"CEPH_CONF": "/root/other.conf"}),
    (("program",), {"CEPH_CLIENT_ID": "admin"}),
    (("bash", "-c", "ceph osd tree"), {}),
    (("bash", "-c", f"set -e; x=$(ceph {' '.join(NAMED)} status)"), {}),
    (("/bin/sh", "-ec", "sleep 1; /usr/bin/rados lspools | sort"), {}),
    (("sh", "-c", "CEPH_ARGS='--id boss' own-program"), {}),
    (("env", "ceph", "status"), {}),
    (("env", "-i", "CEPH_CONF=/root/other.conf", "program"), {}),
    (("sudo", "-n", "ceph", "status"), {}),
    (("sudo", "-u", "ceph", "cephadm", "shell"), {}),
    (("timeout", "10", "bash", "-c", "rbd ls"), {}),
    (("python3", "-c", "import subprocess; subprocess.run(['ceph', 'status'])"), {}),
    (("python3", "-Ic", "import rados; rados.Rados(conffile='')"), {}),
    (("python3", "-c", "import os; os.environ['CEPH_KEYRING'] = '/x'; main()"), {}),
    (("env", "python3", "-c", "import rbd"), {}),
    (("python3", "-cimport os\nimport rados"), {}),
    (("perl", "-we", "system('ceph status')"), {}),
    (("perl", "-eprint 1;\nsystem('ceph status')"), {}),
    (("program", "client.admin"), {}),
    (("cat", ADMIN_KEYS), {}),
    (("cat", LAB_KEYS), {}),
    (("cat", "/root/keyring"), {}),
    (("cat", "/root/my.keyring"), {}),
    (("cp", str(OWN.parent / "agent.zip"), "copy"), {}),
    (("ln", "-s", "../guarded", str(OWN / "link")), {}),
    (("ln", "-s", str(OWN / "a/../../guarded"), str(OWN / "link")), {}),
    (("python3", "-c", f"print(open('{LAB_KEYS}').read())"), {}),
    (("dd", f"if={LAB_KEYS}"), {}),
    (("ls", str(OWN.parent.parent / "other")), {}),
    (("tar", "-cf", "-", "/etc/ceph"), {}),
]


@pytest.mark.parametrize(("argv", "env"), MISTAKES, ids=lambda words: " ".join(words) or "-")
def test_no_program_can_be_another_entity(argv: Sequence[str], env: Mapping[str, str], tmp_path: Path) -> None:
    with pytest.raises(OtherEntity) as caught:
        OFFERED.judge(argv, env)
    assert any(named in caught.value.what for named in (argv[0], *env)), "what was asked"
    assert f"-n {ENTITY}" in caught.value.hint, "what is allowed"
    assert "AQ==" not in str(caught.value)
    assert isinstance(caught.value, LabError)
    here, guarded = machine(tmp_path)
    for attempt in (guarded.run, guarded.channel, guarded.interactive):
        with pytest.raises(OtherEntity):
            attempt([word.replace(str(OWN.parent.parent), str(here.directory.parent)) for word in argv], env=env)
    assert here.told == []


@pytest.mark.parametrize("option", ["-K", "--key", "--keyfile"])
def test_a_key_of_its_own_is_refused_and_not_shown(option: str) -> None:
    for words in ([option, "AQ=="], [f"{option}=AQ=="]):
        with pytest.raises(OtherEntity, match="with a key of its own") as caught:
            OFFERED.judge(("ceph", *NAMED, *words, "status"), {})
        assert "AQ==" not in str(caught.value)


@pytest.mark.parametrize(
    "argv",
    [words.split() for words in ("bash", "bash -x", "python3", "bash -s word", "python3 -I - word", "sudo -n bash")]
    + [["python3", "-W", "ignore"], ["bash", "-o", "pipefail"], ["bash", "+O", "extglob"]],
    ids=" ".join,
)
def test_what_an_interpreter_reads_is_looked_at(argv: Sequence[str]) -> None:
    for text in (b"ceph status \xff\n", b"rados lspools"):
        with pytest.raises(OtherEntity):
            OFFERED.judge(argv, {}, text)
    OFFERED.judge(("python3", "-W", "ignore", "x.py", "-"), {}, b"ceph")  # what a program reads is its own affair


def test_paths_in_what_an_interpreter_reads_are_looked_at() -> None:
    with pytest.raises(OtherEntity, match="in the lab's own folder"):
        OFFERED.judge(("python3",), {}, f"open('{LAB_KEYS}')".encode())


def test_a_path_is_taken_from_where_the_program_runs() -> None:
    up = ("cat", "../guarded/keyring")
    with pytest.raises(OtherEntity):
        OFFERED.judge(up, {})
    OFFERED.judge(up, {}, cwd=OWN / "folder")
    with pytest.raises(OtherEntity):
        OFFERED.judge(("cat", "./ceph/x"), {}, cwd=PurePosixPath("/etc"))


ALLOWED: list[tuple[Sequence[str], Mapping[str, str]]] = [
    (("rados", "-c", str(OWN / "ceph.conf"), *NAMED, "-p", "rbd", "ls"), {}),
    (("rbd", "--id", "cephlab-r1", "create", "mine/rados", "--size", "1G"), {}),
    (("rbd", "ls", "mine", "--id", "cephlab-r1"), {}),
    (("ceph", f"--name={ENTITY}", "--keyring", str(OWN / "fio/keyring"), "status"), {"CEPH_CONF": str(OWN / "c")}),
    (("rbd", "--user", "cephlab-r1", "--conf", str(OWN / "ceph.conf"), "-k", str(OWN / "keyring"), "ls", "rbd"), {}),
    (("ceph", f"-n{ENTITY}", "-c", "/dev/null", "osd", "size=3"), {"CEPH_CLIENT_ID": "cephlab-r1"}),
    (("fio", f"--clientname={ENTITY}", "--pool=rbd"), {"CEPH_ARGS": f"--name={ENTITY}"}),
    (("fio", "--ioengine=rbd", "--clientname=cephlab-r1", "--pool=rbd", "--output=/var/tmp/cephlab-x/n/own/o"), {}),
    (("monmaptool", "-c", "/dev/null", "--print", str(OWN / "map")), {"CEPH_CONF": str(OWN / "ceph.conf")}),
    (("python3", str(OWN / "load/program.py"), str(OWN / "ceph.conf"), ENTITY, '{"kind": "rbd"}'), {}),
    (("python3", "-c", "print(1)", "/usr/lib/x86_64-linux-gnu/ceph/libceph-common.so.2"), {}),
    (("ceph_erasure_code_benchmark", "--erasure-code-dir", "/usr/lib/ceph/erasure-code"), {}),
    (("modprobe", "rbd"), {}),
    (("sudo", "-n", "true"), {}),
    (("bash", "-c", "sync; cat own.txt"), {}),
]


@pytest.mark.parametrize(("argv", "env"), ALLOWED, ids=lambda words: " ".join(words) or "-")
def test_the_runs_own_entity_and_what_asks_nothing_of_ceph_pass(argv: Sequence[str], env: Mapping[str, str]) -> None:
    assert offers(argv, env)


def offers(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    try:
        OFFERED.judge(argv, env)
    except OtherEntity:
        return False
    return True


def test_without_a_pool_on_the_list_nobody_is_offered() -> None:
    for named in (NAMED, ("--name=",), ("-n", "")):
        with pytest.raises(OtherEntity) as caught:
            replace(OFFERED, entity="").judge(("ceph", *named, "status"), {})
        assert "the list has no pool" in caught.value.hint


@pytest.mark.parametrize("variable", ["CEPH_ARGS", "CEPH_CLIENT_ID"])
def test_a_variable_that_names_another_entity_is_told(variable: str) -> None:
    value = "--id boss" if variable == "CEPH_ARGS" else "boss"
    with pytest.raises(OtherEntity, match=rf": {variable} as client\.boss on n"):
        OFFERED.judge(("program",), {variable: value})


SHOWN = "echo $CEPH_ARGS,$CEPH_CONF,$CEPH_KEYRING"


def test_a_program_that_calls_ceph_unseen_is_the_runs_own_entity(tmp_path: Path) -> None:
    _, guarded = machine(tmp_path)
    own = guarded.directory
    guarded.push(SHOWN.encode(), own / "script")
    asked = ("sh", str(own / "script"))
    assert guarded.run(asked).stdout.strip() == f"--name={ENTITY},{own}/ceph.conf,{own}/keyring"
    more = {"CEPH_ARGS": "--no-mon-config", "CEPH_CONF": f"{own}/mine"}
    assert guarded.run(asked, env=more).stdout.startswith(f"--name={ENTITY} --no-mon-config,{own}/mine,")
    _, nobody = machine(tmp_path, entity="")
    assert nobody.run(asked).stdout.strip() == ",/dev/null,/dev/null"


def test_however_it_is_started(tmp_path: Path) -> None:
    here, guarded = machine(tmp_path)
    starts: list[Callable[[], object]] = [
        lambda: guarded.spawn(("program",), log=guarded.directory / "log", env={"A": "b"}),
        lambda: guarded.channel(("program",), env={"A": "b"}),
        lambda: guarded.interactive(("program",), env={"A": "b"}),
    ]
    for start in starts:
        here.environment = None
        start()
        assert here.environment is not None
        assert (here.environment["A"], here.environment["CEPH_ARGS"]) == ("b", f"--name={ENTITY}")


def test_a_preloaded_object_in_the_labs_folder_is_refused(tmp_path: Path) -> None:
    here, guarded = machine(tmp_path)
    for start in (guarded.run, partial(guarded.spawn, log=guarded.directory / "log")):
        with pytest.raises(NotPermitted, match="in the lab's own folder"):
            start(("true",), env=preloading([here.directory / "agent.so"]))
    assert here.told == []


def test_the_programs_ceph_conf_leads_to_one_keyring() -> None:
    """The cluster's own names others, in sections that would win over a default."""
    text = "[global]\nfsid = f\nkeyring = /a\n[client.admin]\n keyring=/b\nkey = AQ==\nkeyfile = /c\nlog_file = /d\n"
    conf = configparser.ConfigParser(strict=False)
    conf.read_string(limited_conf(text, ENTITY, OWN / "keyring").decode())
    keys = {(name, key): value for name in conf.sections() for key, value in conf[name].items() if "key" in key}
    assert keys == {("global", "keyring"): str(OWN / "keyring"), (ENTITY, "keyring"): str(OWN / "keyring")}
    assert conf["global"]["fsid"] == "f"


# Files

Verb = Callable[[GuardedHost, PurePosixPath], object]
VERBS: dict[str, Verb] = {
    "push": lambda host, path: host.push(b"changed", path),
    "pull": lambda host, path: host.pull(path, Path("/dev/null")),
    "read": lambda host, path: host.read(path),
    "exists": lambda host, path: host.exists(path),
    "make_directory": lambda host, path: host.make_directory(path),
    "remove": lambda host, path: host.remove(path),
    "log": lambda host, path: host.spawn(("true",), log=path),
    "cwd": lambda host, path: host.run(("true",), cwd=path),
}
THEIRS = (
    "guarded/keyring",
    "agent.zip",
    "agent",
    "agent.py",
    ".",
    "..",
    "own/../guarded/keyring",
    "own/a/../../agent.py",
)


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed"])
@pytest.mark.parametrize("path", THEIRS)
@pytest.mark.parametrize("verb", VERBS)
def test_the_labs_folder_is_out_of_reach(verb: str, path: str, listed: bool, tmp_path: Path) -> None:
    here, guarded = machine(tmp_path, listed=listed)
    with pytest.raises(NotPermitted) as caught:
        VERBS[verb](guarded, here.directory / path)
    if listed:
        assert "in the lab's own folder" in caught.value.what
        assert str(guarded.directory) in caught.value.hint
    assert here.read(here.directory / "guarded/keyring") == b"was there"
    assert here.told == []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("link", "path"), [("../guarded", "link/keyring"), ("sub", "link/../../../guarded/keyring")])
def test_links_do_not_lead_into_the_labs_folder(verb: str, link: str, path: str, tmp_path: Path) -> None:
    here, guarded = machine(tmp_path)
    Path(guarded.directory / "link").symlink_to(link)
    Path(guarded.directory / "sub").mkdir()
    with pytest.raises(OtherEntity, match="in the lab's own folder"):
        VERBS[verb](guarded, guarded.directory / path)
    assert here.read(here.directory / "guarded/keyring") == b"was there"


def test_a_link_that_leads_out_is_not_followed_and_can_be_removed(tmp_path: Path) -> None:
    here, guarded = machine(tmp_path)
    link = guarded.directory / "link"
    Path(link).symlink_to(here.directory / "guarded/keyring")
    with pytest.raises(OtherEntity):
        guarded.read(link)
    guarded.remove(link)
    assert not Path(link).is_symlink()
    assert here.exists(here.directory / "guarded/keyring")


def test_a_link_that_leads_elsewhere_needs_the_list(tmp_path: Path) -> None:
    _, guarded = machine(tmp_path, listed=False)
    Path(guarded.directory / "link").symlink_to(tmp_path)
    with pytest.raises(NotPermitted, match="not on the list"):
        guarded.read(guarded.directory / "link" / "x")


def test_the_scenarios_folder_may_be_reached_by_a_link(tmp_path: Path) -> None:
    """As where /var/tmp is one."""
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")
    _, guarded = machine(tmp_path / "linked", listed=False)
    assert guarded.read(guarded.directory / "mine") == b"was there"
    with pytest.raises(OtherEntity):
        guarded.read(PurePosixPath(tmp_path / "linked/cephlab-x/n/guarded/keyring"))


@pytest.mark.parametrize(
    "path",
    [
        ADMIN_KEYS,
        "/var/lib/ceph/mon/ceph-a/store.db",
        "/root/keyring",
        "/etc/ceph/../ceph/x",
        "/var/snap/microceph/current/conf/ceph.conf",
    ],
)
def test_keys_that_the_machine_has_are_not_read(path: str, tmp_path: Path) -> None:
    _, guarded = machine(tmp_path)
    for verb in (guarded.read, guarded.exists, guarded.remove):
        with pytest.raises(OtherEntity, match="keys of other entities"):
            verb(PurePosixPath(path))
