"""The image store: what makes a key, what is built when, what an interruption leaves, what is refused."""

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken, LabError, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.images import store as store_module
from cephlab.lab.images.cache import image_key
from cephlab.lab.spec.arch import host_arch
from tests.fake_image_tools import FOREIGN, VERSIONS, FakePreload, FakeTools, make_store

NATIVE = host_arch()
ROOT = Path(__file__).resolve().parents[3]


def entries(folder: Path) -> list[str]:
    """What the image folder shows: images and scratch, without the store's own records."""
    images = folder / "home" / "images"
    return sorted(path.name for path in images.iterdir() if path.name not in {".locks", ".resolutions"})


def test_a_build_gives_a_complete_image(tmp_path: Path) -> None:
    lines: list[str] = []
    image = make_store(tmp_path).get("reef", NATIVE, progress=lines.append)
    assert (image.release, image.arch, image.role_sets) == ("reef", NATIVE, ("ceph",))
    assert image.packages == VERSIONS, "an epoch is part of a version"
    assert image.ceph_version == "18.2.7+ds-1"
    assert image.root == tmp_path / "home" / "images" / image.key / "root"
    assert image.aio_shim.read_bytes() == b"shim"
    assert entries(tmp_path) == [image.key]
    assert any("unpacking 3 packages" in line for line in lines)


def test_what_maintainer_scripts_would_have_made_is_there(tmp_path: Path) -> None:
    root = make_store(tmp_path).get("reef", NATIVE).root
    assert "root:*:0:0" in (root / "etc/passwd").read_text()
    assert "ceph:*:64045:64045:" in (root / "etc/passwd").read_text()
    assert "ceph:*:64045:" in (root / "etc/group").read_text()
    assert "localhost" in (root / "etc/hosts").read_text()
    assert "files dns" in (root / "etc/nsswitch.conf").read_text()
    for name in ("dev", "proc", "sys", "run", "root", "var/lib/ceph", "var/log/ceph"):
        assert (root / name).is_dir(), name
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777
    assert os.access(root / "usr/sbin/init", os.X_OK)
    assert (root / "var/run").resolve() == root / "run"
    assert list(root.glob("usr/lib/python3/dist-packages/__pycache__/*.pyc"))


def test_nothing_of_this_machine_gets_in_and_nothing_of_the_image_gets_out(tmp_path: Path) -> None:
    def link_target(root: Path) -> None:
        (root.parent / "of-this-machine").write_text("nameserver 192.0.2.1")

    image = make_store(tmp_path, FakeTools(unpacking=link_target)).get("reef", NATIVE)
    assert (image.root / "etc/hostname").read_text() == "cephlab\n"
    assert (image.root / "etc/resolv.conf").read_text() == ""
    assert (image.root.parent / "of-this-machine").read_text() == "nameserver 192.0.2.1"


def test_documentation_goes_and_licences_stay(tmp_path: Path) -> None:
    share = make_store(tmp_path).get("reef", NATIVE).root / "usr/share"
    assert [path.name for path in (share / "doc/bash").iterdir()] == ["copyright"]
    assert not (share / "man").exists()


def test_a_second_get_does_nothing(tmp_path: Path) -> None:
    first = make_store(tmp_path).get("reef", NATIVE)
    idle = FakeTools(missing=frozenset({"mmdebstrap"}))
    assert make_store(tmp_path, idle, keyring=False).get("reef", NATIVE) == first
    assert idle.calls == []


@pytest.mark.slow
def test_refresh_asks_again_and_builds_only_what_changed(tmp_path: Path) -> None:
    first = make_store(tmp_path).get("reef", NATIVE)
    same = FakeTools()
    assert make_store(tmp_path, same).get("reef", NATIVE, refresh=True) == first
    assert (same.count("resolve"), same.count("unpack")) == (1, 0)

    newer = FakeTools(versions=VERSIONS | {"ceph-osd": "18.2.8+ds-1"})
    second = make_store(tmp_path, newer).get("reef", NATIVE, refresh=True)
    assert newer.count("unpack") == 1
    assert second.key != first.key
    assert make_store(tmp_path).get("reef", NATIVE) == second, "the newest is what a plain get means now"
    assert {image.key for image in make_store(tmp_path).list()} == {first.key, second.key}


def test_a_foreign_image_takes_the_native_one_for_its_byte_code(tmp_path: Path) -> None:
    tools = FakeTools()
    store = make_store(tmp_path, tools)
    image = store.get("reef", FOREIGN)
    native, foreign = NATIVE.debian, FOREIGN.debian
    assert [call for call in tools.calls if call[0] == "unpack"] == [("unpack", native), ("unpack", foreign)]
    assert [call for call in tools.calls if call[0] == "compile"] == [("compile", native), ("compile", foreign)]
    assert {stored.arch for stored in store.list()} == {NATIVE, FOREIGN}
    assert list(image.root.glob("usr/lib/python3/dist-packages/__pycache__/*.pyc"))


def test_the_same_inputs_make_the_same_key_and_any_change_another() -> None:
    base = image_key("recipe", {"a": "1", "b": "2"})
    assert image_key("recipe", {"b": "2", "a": "1"}) == base
    others = [
        image_key("another", {"a": "1", "b": "2"}),
        image_key("recipe", {"a": "1", "b": "3"}),
        image_key("recipe", {"a": "1"}),
        image_key("recipe", {"a": "1", "b": "2", "c": "3"}),
    ]
    assert len({base, *others}) == 5


def test_a_changed_preload_is_compiled_again_beside_the_same_root(tmp_path: Path) -> None:
    first = make_store(tmp_path).get("reef", NATIVE)
    same = make_store(tmp_path, preload=FakePreload(code=b"unused")).get("reef", NATIVE)
    assert same.aio_shim.read_bytes() == b"shim"
    changed = make_store(tmp_path, preload=FakePreload(digest="shim-2", code=b"newer")).get("reef", NATIVE)
    assert changed == first
    assert changed.aio_shim.read_bytes() == b"newer"


class Stopped(BaseException):
    """Ends a build where nothing expects it."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, Stopped, LabBroken("tar failed")])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, error: BaseException | type[BaseException]) -> None:
    def stop(_root: Path) -> None:
        raise error

    with pytest.raises(BaseException) as caught:  # noqa: PT011 - which one is asserted next
        make_store(tmp_path, FakeTools(unpacking=stop)).get("reef", NATIVE)
    assert caught.type is error or caught.value is error
    assert entries(tmp_path) == []
    assert make_store(tmp_path).list() == []
    assert make_store(tmp_path).get("reef", NATIVE).root.is_dir()


KILLED = """
import sys
from pathlib import Path
from cephlab.lab.base import process
from cephlab.lab.spec.arch import host_arch
from tests.fake_image_tools import FakeTools, make_store

def linger(root):
    scratch = str(root.parent.parent)
    print("half", flush=True)
    argv = ["sh", "-c", "echo $$ > $0/pid; sleep 300; :", sys.argv[1]]
    process.run(argv, timeout_s=300, env={"CEPHLAB_BUILD": scratch})

make_store(Path(sys.argv[1]), FakeTools(unpacking=linger)).get("reef", host_arch())
"""


@pytest.fixture
def killed_build(tmp_path: Path) -> int:
    """A build that kill -9 ended half way; gives the pid of what it had started."""
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"half\n"
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    child.kill()
    child.wait()
    child.stdout.close()
    pid = int((tmp_path / "pid").read_text())
    assert running(pid)
    assert len(entries(tmp_path)) == 1
    assert make_store(tmp_path).list() == []
    return pid


@pytest.mark.slow
def test_prune_removes_what_a_killed_build_left(tmp_path: Path, killed_build: int) -> None:
    removed = make_store(tmp_path).prune()
    assert len(removed) == 1
    assert "reef" in removed[0]
    assert entries(tmp_path) == []
    wait_for(lambda: not running(killed_build))
    assert make_store(tmp_path).prune() == []


@pytest.mark.slow
def test_the_next_build_removes_what_a_killed_one_left(tmp_path: Path, killed_build: int) -> None:
    image = make_store(tmp_path).get("reef", NATIVE)
    assert entries(tmp_path) == [image.key]
    wait_for(lambda: not running(killed_build))


def test_prune_leaves_a_running_build_alone(tmp_path: Path) -> None:
    pruned: list[str] = []
    tools = FakeTools(unpacking=lambda _root: pruned.extend(make_store(tmp_path).prune()))
    assert make_store(tmp_path, tools).get("reef", NATIVE).root.is_dir()
    assert pruned == []


def test_threads_that_want_the_same_image_build_it_once(tmp_path: Path) -> None:
    waiting = threading.Event()
    tools = FakeTools(unpacking=lambda _root: assert_true(waiting.wait(20)))
    lines: list[str] = []

    def second_line(line: str) -> None:
        lines.append(line)
        waiting.set()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(make_store(tmp_path, tools).get, "reef", NATIVE)
        wait_for(lambda: tools.count("unpack") == 1)
        second = pool.submit(make_store(tmp_path, tools).get, "reef", NATIVE, progress=second_line)
        assert first.result(30) == second.result(30)
    assert tools.count("unpack") == 1
    assert "waiting for another cephlab process" in lines[0]


BUILDER = """
import sys, time
from pathlib import Path
from cephlab.lab.spec.arch import host_arch
from tests.fake_image_tools import FakeTools, make_store

def slow(root):
    with (Path(sys.argv[1]) / "unpacked").open("a") as log:
        log.write("once\\n")
    time.sleep(0.5)

print(make_store(Path(sys.argv[1]), FakeTools(unpacking=slow)).get("reef", host_arch()).key)
"""


@pytest.mark.slow
def test_processes_that_want_the_same_image_build_it_once(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", BUILDER, str(tmp_path)]
    children = [subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    keys = {child.communicate(timeout=30)[0] for child in children}
    assert [child.returncode for child in children] == [0, 0, 0]
    assert len(keys) == 1
    assert (tmp_path / "unpacked").read_text() == "once\n"


@pytest.mark.slow
def test_remove_forgets_an_image_wholly(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    image = store.get("reef", NATIVE)
    (image.root / "usr/lib/python3").chmod(0o500)
    store.remove(image)
    assert entries(tmp_path) == []
    assert store.cached("reef", NATIVE) is None
    with pytest.raises(SpecError, match="there is no image"):
        store.remove(image)
    assert store.get("reef", NATIVE) == image


def test_cached_never_builds(tmp_path: Path) -> None:
    tools = FakeTools()
    store = make_store(tmp_path, tools)
    assert store.cached("reef", NATIVE) is None
    assert tools.calls == []
    assert store.list() == []
    assert store.prune() == []
    image = store.get("reef", NATIVE)
    assert store.cached("reef", NATIVE) == image


class FullHome(Home):
    """A home on a disk that is nearly full."""

    def free_bytes(self) -> int:
        return store_module.SPACE_BYTES - 1


def test_too_little_disk_is_refused_before_anything_runs(tmp_path: Path) -> None:
    tools = FakeTools()
    with pytest.raises(SpecError) as caught:
        make_store(tmp_path, tools, home=FullHome(tmp_path / "home")).get("reef", NATIVE)
    assert f"needed {store_module.SPACE_BYTES / 1e9:.1f} GB" in str(caught.value)
    assert tools.calls == []
    assert entries(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file is where the folder should be")
    tools = FakeTools()
    with pytest.raises(SpecError, match="cannot be written"):
        make_store(tmp_path, tools).get("reef", NATIVE)
    assert tools.calls == []


def no_keyring(folder: Path) -> tuple[FakeTools, store_module.ImageStore]:
    tools = FakeTools()
    return tools, make_store(folder, tools, keyring=False)


def no_mmdebstrap(folder: Path) -> tuple[FakeTools, store_module.ImageStore]:
    tools = FakeTools(missing=frozenset({"mmdebstrap"}))
    return tools, make_store(folder, tools)


@pytest.mark.parametrize(("make", "package"), [(no_keyring, "debian-archive-keyring"), (no_mmdebstrap, "mmdebstrap")])
def test_a_missing_package_is_named(
    tmp_path: Path, make: Callable[[Path], tuple[FakeTools, store_module.ImageStore]], package: str
) -> None:
    tools, store = make(tmp_path)
    with pytest.raises(Unavailable) as caught:
        store.get("reef", NATIVE)
    assert caught.value.what == f"{package} is not installed"
    assert f"apt-get install {package}" in caught.value.hint
    assert tools.calls == []


def test_a_missing_cross_compiler_stops_a_foreign_build_before_its_download(tmp_path: Path) -> None:
    tools = FakeTools()
    store = make_store(tmp_path, tools, FakePreload(lacking=frozenset({FOREIGN})))
    with pytest.raises(Unavailable, match=f"no working C compiler for {FOREIGN}"):
        store.get("reef", FOREIGN)
    assert ("unpack", FOREIGN.debian) not in tools.calls


def test_a_native_image_needs_no_compiler(tmp_path: Path) -> None:
    image = make_store(tmp_path, preload=FakePreload(lacking=frozenset({NATIVE}))).get("reef", NATIVE)
    assert not image.aio_shim.exists()


@pytest.mark.parametrize(
    ("refusal", "kind", "said"),
    [
        ("E: Release file for x is expired (invalid since 15d).", LabBroken, "CEPHLAB_ACCEPT_EXPIRED"),
        ("W: GPG error: the public key is not available: NO_PUBKEY 0E98404D", LabBroken, "debian-archive-keyring"),
        ("E: The repository 'x' is not signed.", LabBroken, "signature could not be verified"),
        ("E: Unable to locate package ceph-test", LabBroken, "does not have the packages of the recipe"),
        ("E: Failed to fetch x  Temporary failure resolving 'mirror'", Unavailable, "CEPHLAB_MIRROR"),
        ("tar: ./usr: Cannot write: No space left on device", LabBroken, "the disk is full"),
        ("E: something nobody has seen before", LabError, "something nobody has seen before"),
    ],
)
def test_what_apt_complains_about_is_said_with_a_remedy(
    tmp_path: Path, refusal: str, kind: type[LabError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        make_store(tmp_path, FakeTools(refusal=refusal)).get("reef", NATIVE)
    assert said in str(caught.value)
    assert refusal in str(caught.value) or refusal.startswith("tar")
    assert entries(tmp_path) == []


@pytest.mark.parametrize(
    ("tools", "complaint"),
    [
        (FakeTools(lacking_programs=frozenset({"ceph-osd", "rbd"})), "ceph-osd, rbd"),
        (FakeTools(elf_machine=FOREIGN.elf_machine), "another architecture"),
        (FakeTools(versions={}), "plan could not be read"),
        (FakeTools(compiles=False), "byte code could not be compiled"),
    ],
)
def test_an_image_that_is_not_whole_is_not_kept(tmp_path: Path, tools: FakeTools, complaint: str) -> None:
    with pytest.raises(LabBroken) as caught:
        make_store(tmp_path, tools).get("reef", NATIVE)
    assert complaint in str(caught.value)
    assert entries(tmp_path) == []


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    image = store.get("reef", NATIVE)
    (image.root.parent / "image.json").write_text("{")
    with pytest.raises(LabBroken, match=r"image\.json cannot be read"):
        store.get("reef", NATIVE)


def test_a_home_with_blanks_and_umlauts_serves_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "wärme und 'kälte'"
    assert make_store(folder).get("reef", FOREIGN).root.is_dir()
    assert Home(folder / "home").images.is_dir()


def assert_true(value: bool) -> None:
    assert value


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


def wait_for(ready: Callable[[], bool]) -> None:
    for _ in range(400):
        if ready():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it did not come about in 20 s")
