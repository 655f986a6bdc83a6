"""The command refuses what cannot be served in one sentence, with exit code 2, before anything starts."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app, run
from cephlab.cli.request import ClusterOptions, parse_disk_size, parse_options, warnings
from cephlab.cli.world import World
from cephlab.lab.base.errors import (
    CephTrouble,
    DaemonDied,
    LabBroken,
    LabError,
    NotInstalled,
    NotReached,
    SpecError,
    Unavailable,
)
from cephlab.lab.base.home import Home
from cephlab.lab.base.probe import require_seven_zip
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, GIB, UNKNOWN_RELEASE
from cephlab.lab.spec.layout import Daemons, build_spec
from tests.fake_image_tools import FakePreload
from tests.fake_provider import FakeProvider, kept_cluster, providers, trouble

HERE = host_arch().value


def up(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["up", *arguments], obj=world)


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused or broken here is so whatever the preloads of pulled images are."""
    monkeypatch.setattr("cephlab.lab.images.store.AioPreload", FakePreload)


@pytest.fixture
def fake() -> FakeProvider:
    return FakeProvider(broken=AssertionError("a refused request must not launch anything"))


@pytest.fixture
def world(tmp_path: Path, fake: FakeProvider) -> World:
    return World(Home(tmp_path / "home"), providers(fake))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--release", "hammer"], "unknown release 'hammer'"),
        (["--nodes", "sparc:1"], "unknown architecture 'sparc'"),
        (["--nodes", f"{HERE}:0"], "asks for 0 nodes"),
        (["--nodes", f"{HERE}:many"], "is not ARCH:COUNT"),
        (["--lab", "moon"], "unknown provider 'moon'"),
        (["--mons", "5"], "5 monitors do not fit on 3 nodes"),
        (["--nodes", f"{HERE}:7", "--mons", "6"], "a cluster needs 1 to 5 monitors"),
        (["--mgrs", "4"], "4 managers do not fit on 3 nodes"),
        (["--balancer"], "--balancer needs a gateway"),
        (["--gateways", "0"], "leave --gateways out for none"),
        (["--osds-per-node", "0"], "--osds-per-node must be 1 or more"),
        (["--osds-per-node", "1000"], "do not fit into this machine's memory"),
        (["--disk-size", "huge"], "'huge' is not a size"),
        (["--disk-size", "5MiB"], "too small for an OSD"),
        (["--disk-size", "16TiB"], "too large for a file"),
        (["--option", "osd_pool_default_size"], "is not KEY=VALUE"),
        (["--option", "osd_pool_default_size=4"], "4 replicas need 4 hosts with OSDs"),
        (["--option", "osd pool default size=4"], "4 replicas need 4 hosts with OSDs"),
        (["--name", "No_Such_Name"], "is not a valid name for a cluster"),
        (["--release", "reef", "--image", "example/ceph:1"], "--release and --image cannot be given together"),
        (["--timeout", "-1"], "--timeout"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "inf"], "Invalid value for '--timeout'"),
        (["--timeout", "nan"], "--timeout"),
        (["--disk-size", "x"], "hint: write 10GiB"),
        (["--image", "foo bar"], "--image: 'foo bar' is not the name of an image"),
        (["--dry-run", "--image", "foo bar"], "--image: 'foo bar' is not the name of an image"),
        (["--dry-run", "--name", "../x"], "'../x' is not a valid name for a cluster"),
        (["--spec", "absent.toml"], "absent.toml cannot be read"),
        (
            ["--spec", "x.toml", "--mons", "1", "--option", "a=b"],
            "--spec and --mons, --option cannot be given together",
        ),
    ],
)
def test_up_refuses(world: World, fake: FakeProvider, arguments: list[str], sentence: str) -> None:
    result = up(world, *arguments)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert result.stdout == ""
    assert fake.launched == []
    assert list(world.runs.all()) == []


def test_a_plan_refuses_a_taken_name_and_says_once_on_what_it_is_raised(world: World) -> None:
    kept_cluster(world.home, "one")
    assert "a cluster called 'one' already exists" in up(world, "--dry-run", "--name", "one").stderr
    shown = up(world, "--dry-run", "--nodes", f"{HERE}:1", "--option", "osd_memory_targt=1")
    assert shown.exit_code == 0, shown.output
    assert (shown.stdout + shown.stderr).count("provider:") == 1
    assert "the ceph.conf settings were not checked: no image of reef is cached" in shown.stderr


def test_the_release_of_a_pulled_image_is_not_made_up() -> None:
    assert ClusterOptions(image="example/ceph:1").build(foreign_runs=True).release == UNKNOWN_RELEASE
    assert ClusterOptions().build(foreign_runs=True).release == DEFAULT_RELEASE


def test_an_error_is_one_line_its_evidence_and_a_hint(world: World) -> None:
    lines = up(world, "--nodes", f"{HERE}:0").stderr.splitlines()
    assert lines == [
        f"error: --nodes: '{HERE}:0' asks for 0 nodes",
        "  wanted: a count of 1 or more",
        "hint: leave the part out",
    ]


def test_with_json_an_error_is_an_object_on_stdout(world: World) -> None:
    result = up(world, "--nodes", f"{HERE}:0", "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert sorted(error) == ["detail", "hint", "what"]
    assert error["what"].endswith("asks for 0 nodes")


def test_a_taken_name_is_refused(world: World, fake: FakeProvider) -> None:
    kept_cluster(world.home, "one")
    result = up(world, "--name", "one", "--image", "example/ceph:1")
    assert result.exit_code == 2
    assert "a cluster called 'one' already exists" in result.stderr
    assert "cephlab down one" in result.stderr
    assert fake.launched == []


def test_a_cache_folder_that_cannot_be_written_is_refused(fake: FakeProvider) -> None:
    result = up(World(Home(Path("/proc/home")), providers(fake)))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert "CEPHLAB_HOME" in result.stderr


def test_an_engine_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    silent = FakeProvider("container", reason=Unavailable("the engine does not answer", "refused", "start it"))
    world = World(Home(tmp_path), providers(silent))
    result = up(world, "--lab", "container", "--nodes", f"{HERE}:1")
    assert result.exit_code == 2
    assert "error: the engine does not answer" in result.stderr
    assert "hint: start it" in result.stderr


def test_an_unknown_key_of_a_spec_file_is_named(world: World, tmp_path: Path) -> None:
    for text, key in (("noodles = 3\n", "noodles"), ("", "nodes.0.memmory")):
        line = "" if text else "memmory = 1\n"
        file = tmp_path / "spec.toml"
        file.write_text(f'{text}[[nodes]]\nname = "n0"\narch = "{HERE}"\nmon = true\nmgr = true\n{line}')
        result = up(world, "--spec", str(file))
        assert result.exit_code == 2
        assert f"{key}: unknown key" in result.stderr


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("cores = -1", "nodes.0.cores: got -1, wanted: a number above 0"),
        ("cores = 0", "nodes.0.cores: got 0, wanted: a number above 0"),
        ("cores = nan", "nodes.0.cores: got nan, wanted: a number above 0"),
        ("cores = true", "nodes.0.cores: got True"),
        ('memory_bytes = "-1GiB"', "nodes.0.memory_bytes: got '-1GiB'"),
        ("cores = 0.001", "nodes.0.cores: got 0.001, wanted: 0.01 or more"),
        ("memory_bytes = 1", "nodes.0.memory_bytes: got 1, wanted: 6291456 or more"),
        ('memory_bytes = "9999999TiB"', 'wanted: bytes, as a number or with K, M, G or T such as "10GiB", below 8 EiB'),
        (f"memory_bytes = {'9' * 40}", "nodes.0.memory_bytes: got a number beyond 64 bits"),
        (f"memory_bytes = {'9' * 5000}", "a number has thousands of digits"),
        (
            'disks = [{ name = "d", size_bytes = "17TiB" }]',
            "nodes.0.disks.0.size_bytes: got 18691697672192, wanted: 17592186040320 (below 16 TiB) or less",
        ),
        ('osds = [{ block = "" }]', "node n0: an OSD names disk '', which the node does not have"),
        ("disks = 5", "nodes.0.disks: got 5, wanted: a list"),
        ("osds = [5]", "nodes.0.osds.0: got 5, wanted: a table"),
        ("arch2 = 2024-02-29", "nodes.0.arch2: unknown key"),
        ("cores = 2024-02-29", "nodes.0.cores: got 2024-02-29, wanted: a number"),
        (f'memory_bytes = "{"x" * 999}"', "..., wanted: bytes"),
        (f"services = {'[' * 60}{']' * 60}", "nodes: got tables or lists that are nested more than 40 deep"),
        (f"services = {'[' * 9000}", "its lists and tables are nested too deeply"),
        ('services = []\n[options]\n"mon lease" = "1\\n[osd]"', "options.mon_lease: got '1\\n[osd]', wanted: a name"),
        ('services = []\n[options]\n"[osd]" = 1', "options.[osd]: got '1', wanted: a name of a-z"),
        ("memory_bytes = 0", "nodes.0.memory_bytes: got 0, wanted: a number above 0"),
        ('mon = "yes"', "nodes.0.mon: got 'yes'"),
        ("mgr = 1", "nodes.0.mgr: got 1"),
        ('disks = [{ name = "d", limits = { read_iops = 0 } }]', "nodes.0.disks.0.limits.read_iops: got 0"),
        ('disks = [{ name = "d", size_bytes = "big" }]', "nodes.0.disks.0.size_bytes: got 'big', wanted: bytes"),
    ],
)
def test_values_that_make_no_machine_are_refused(
    world: World, fake: FakeProvider, tmp_path: Path, line: str, sentence: str
) -> None:
    file = tmp_path / "spec.toml"
    known = {"mon": "mon = true", "mgr": "mgr = true"}
    lines = [*(text for key, text in known.items() if not line.startswith(key)), line]
    file.write_text(f'[[nodes]]\nname = "n0"\narch = "{HERE}"\n' + "\n".join(lines) + "\n")
    result = up(world, "--spec", str(file))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert fake.launched == []


def test_all_that_is_wrong_with_a_spec_file_is_told_at_once(world: World, tmp_path: Path) -> None:
    text = """
noodles = 3
[[nodes]]
name = "n0"
arch = "sparc"
mon = "yes"
cores = -1
osds = [{ block = "e" }]
"""
    file = tmp_path / "spec.toml"
    file.write_text(text)
    told = up(world, "--spec", str(file)).stderr
    for line in (
        "nodes.0.arch: got 'sparc', wanted: 'x86_64' or 'aarch64'",
        "nodes.0.mon: got 'yes', wanted: true or false",
        "noodles: unknown key",
        "nodes.0.cores: got -1, wanted: a number above 0",
        "nodes.0.osds.0.block: node n0: an OSD names disk 'e', which the node does not have: its disks: none",
    ):
        assert line in told
    assert "nodes.*" not in told, "a monitor that could not be read is no missing one"


def test_all_that_keeps_a_spec_file_from_a_cluster_is_told_at_once(world: World, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(f'[[nodes]]\nname = "n0"\narch = "{HERE}"\n' * 2)
    told = up(world, "--spec", str(file)).stderr
    assert "nodes.1.name: node 'n0' is there more than once" in told
    assert "nodes.*.mon: a cluster needs 1 to 5 monitors" in told
    assert "nodes.*.mgr: a cluster needs a manager" in told


def test_a_spec_without_an_osd_is_refused(world: World, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(f'[[nodes]]\nname = "n0"\narch = "{HERE}"\nmon = true\nmgr = true\n')
    result = up(world, "--spec", str(file))
    assert result.exit_code == 2
    assert "a cluster without an OSD never becomes healthy" in result.stderr


def test_an_even_number_of_monitors_is_only_warned_of() -> None:
    assert warnings(build_spec([(host_arch(), 2)], Daemons(mons=2))) == [
        "2 monitors tolerate no more failures than 1: an odd number is better"
    ]
    assert warnings(build_spec([(host_arch(), 3)], Daemons(mons=3))) == []


@pytest.mark.parametrize("error", [trouble(), LabBroken("the bridge is gone"), NotReached("quorum", 3.0, "none")])
def test_a_launch_that_fails_leaves_nothing(tmp_path: Path, error: LabError) -> None:
    fake = FakeProvider(broken=error)
    world = World(Home(tmp_path), providers(fake))
    result = up(world, "--name", "one", "--image", "example/ceph:1")
    assert result.exit_code == error.exit_code
    assert f"error: {error.what}" in result.stderr
    assert "everything that was started has been removed again" in result.stderr
    assert fake.launched == ["one"]
    assert fake.holding == set()
    assert list(world.runs.all()) == []


def test_an_interrupted_launch_leaves_nothing(tmp_path: Path) -> None:
    fake = FakeProvider(broken=KeyboardInterrupt())
    world = World(Home(tmp_path), providers(fake))
    result = up(world, "--name", "one", "--image", "example/ceph:1")
    assert result.exit_code == 130
    assert "error: interrupted" in result.stderr
    assert fake.holding == set()
    assert list(world.runs.all()) == []


def test_what_a_failed_launch_could_not_remove_is_told_with_the_error(tmp_path: Path) -> None:
    fake = FakeProvider(broken=trouble(), stuck={"one"})
    world = World(Home(tmp_path), providers(fake))
    result = up(world, "--name", "one", "--image", "example/ceph:1")
    assert result.exit_code == 3
    assert "error: no room for a network" in result.stderr
    assert "a process does not die" in result.stderr
    assert [run.id for run in world.runs.all()] == ["one"]


@pytest.mark.parametrize(
    ("text", "size"), [("10GiB", 10 * GIB), ("10g", 10 * GIB), ("1.5 GiB", 3 * GIB // 2), ("2147483648", 2 * GIB)]
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_disk_size(text) == size


def test_a_dry_run_shows_the_cluster_and_starts_nothing(world: World, fake: FakeProvider) -> None:
    asked = ("--dry-run", "--nodes", f"{HERE}:2", "--image", "example/ceph:1", "--option", "mon_lease=9")
    result = up(world, *asked)
    assert result.exit_code == 0, result.output
    for text in ("n0", "mon, mgr, 1 OSD", "10GiB ssd", "example/ceph:1", "mon_lease = 9", "nothing was started"):
        assert text in result.stdout
    assert " (the cheapest provider that can do this" in result.stdout
    value = json.loads(up(world, *asked, "--json").stdout)
    assert [node["name"] for node in value["spec"]["nodes"]] == ["n0", "n1"]
    assert fake.launched == []
    assert list(world.runs.all()) == []


def test_a_dry_run_refuses_what_a_run_refuses(world: World) -> None:
    assert "unknown release 'hammer'" in up(world, "--dry-run", "--release", "hammer").stderr
    assert "existing machines" in up(world, "--dry-run", "--deploy", "microceph").stderr


def test_a_spec_file_is_written_once_and_raises_what_was_asked_for(world: World, tmp_path: Path) -> None:
    file = tmp_path / "my demo.toml"
    asked = ["spec", "init", str(file), "--nodes", f"{HERE}:3", "--mons", "3", "--image", "example/ceph:1"]
    assert f"cephlab up --spec '{file}' --dry-run\n" in CliRunner().invoke(app, asked, obj=world).stderr
    spec = json.loads(up(world, "--spec", str(file), "--dry-run", "--json").stdout)["spec"]
    assert [(node["mon"], node["disks"][0]["size_bytes"]) for node in spec["nodes"]] == [(True, 10 * GIB)] * 3
    again = CliRunner().invoke(app, asked, obj=world)
    assert again.exit_code == 2
    assert "already exists" in again.stderr


def test_the_default_is_a_mixed_cluster_where_the_other_architecture_runs() -> None:
    assert [node.arch is host_arch() for node in ClusterOptions().build(foreign_runs=True).nodes] == [True, True, False]
    assert [node.arch is host_arch() for node in ClusterOptions().build(foreign_runs=False).nodes] == [True, True, True]


def test_wrong_use_with_json_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--nodse", "x", "--json"]) == 2
    assert "--nodes" in json.loads(capsys.readouterr().out)["error"]["detail"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError("x"), 2),
        (Unavailable("x"), 2),
        (LabBroken("x"), 3),
        (CephTrouble("x"), 1),
        (DaemonDied("osd.0", "n0", "ceph-osd", "log", "", None), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(tmp_path: Path, error: LabError, code: int) -> None:
    world = World(Home(tmp_path), providers(FakeProvider(broken=error)))
    assert up(world, "--image", "example/ceph:1").exit_code == code


def test_a_full_disk_is_a_broken_lab_not_a_traceback(tmp_path: Path) -> None:
    world = World(Home(tmp_path), providers(FakeProvider(broken=OSError(28, "No space left on device", "/lab/disk"))))
    result = up(world, "--image", "example/ceph:1")
    assert result.exit_code == 3
    assert "error: the operating system reported: No space left on device" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--suite", "moon"], "there is no suite 'moon'"),
        (["--lab", "moon"], "unknown provider 'moon'"),
        (["--release", "reef", "--image", "some/ceph:1"], "--release and --image cannot be given together"),
        (["--image", "foo bar"], "--image: 'foo bar' is not the name of an image"),
        (["--rerun-failed", "nowhere"], "nowhere is not an archive"),
        (["--resume", "nowhere"], "nowhere is not an archive"),
    ],
)
def test_a_gate_that_cannot_be_starts_no_process(
    world: World, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setattr("cephlab.cli.gate.run", lambda *_: pytest.fail("a process was started"))
    result = CliRunner().invoke(app, ["gate", *arguments], obj=world)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("beside", [(), ("fio", "iperf3")])
def test_programs_for_measuring_that_are_missing_are_named_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch, beside: tuple[str, ...]
) -> None:
    monkeypatch.setattr("cephlab.lab.base.probe.which", lambda _name: None)
    with pytest.raises(NotInstalled) as refused:
        require_seven_zip(*beside)
    assert refused.value.exit_code == 3
    assert refused.value.hint == f"on Debian and Ubuntu: sudo apt-get install {' '.join(('7zip', *beside))}"


def test_a_setting_of_one_side_is_refused_by_the_name_of_its_option() -> None:
    with pytest.raises(SpecError, match="--changed 'foo' is not KEY=VALUE"):
        parse_options(["foo"], "--changed")
