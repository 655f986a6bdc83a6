"""Locks of images: written, built from again, refused where the mirror has moved on, and compared."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.images.lock import PINS, Lock, read_lock
from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.images.resolve import DebianSource, resolve
from cephlab.lab.images.store import ImageStore
from cephlab.lab.spec.arch import Arch, host_arch
from tests.fake_image_tools import FOREIGN, VERSIONS, FakeTools, make_store, sum_of

NATIVE = host_arch()
ROOT = Path(__file__).resolve().parents[2]
NEWER = VERSIONS | {"ceph-osd": "18.2.8+ds-1", "bash": "5.3-1"}
BOOK = read_recipes()


@dataclass(frozen=True)
class LockWorld(World):
    """Whose images are made by stand-ins. asked: the days whose packages were wanted."""

    tools: FakeTools = field(default_factory=FakeTools)
    asked: list[datetime | None] = field(default_factory=list)

    def images_of(self, snapshot: datetime | None) -> ImageStore:
        self.asked.append(snapshot)
        return make_store(self.home.path.parent, self.tools, home=self.home)


def world(folder: Path, tools: FakeTools | None = None) -> LockWorld:
    return LockWorld(Home(folder / "home"), {}, tools or FakeTools())


def call(known: World, *words: str) -> Result:
    return CliRunner().invoke(app, ["image", *words], obj=known)


def locked(folder: Path) -> Path:
    """A lock of what the archive had, written by the command."""
    path = folder / "locks/reef.toml"
    done = call(world(folder), "build", "reef", "--lock", str(path))
    assert done.exit_code == 0, done.stderr
    assert f"wrote {path}" in done.stderr
    return path


@pytest.mark.slow
def test_a_lock_has_every_package_with_the_sum_of_its_file(tmp_path: Path) -> None:
    lock = read_lock(locked(tmp_path))
    assert (lock.release, set(lock.packages)) == ("reef", {NATIVE, FOREIGN})
    for arch, debs in lock.packages.items():
        got = {name: (deb.version, deb.arch, deb.sha256) for name, deb in debs.items()}
        assert got == {name: (version, arch.debian, sum_of(version)) for name, version in VERSIONS.items()}


@pytest.mark.slow
def test_a_lock_brings_the_older_versions_back_where_the_mirror_still_has_them(tmp_path: Path) -> None:
    path = locked(tmp_path)
    first = make_store(tmp_path).get("reef", NATIVE)
    moved = FakeTools(versions=NEWER, older=VERSIONS)
    image = make_store(tmp_path / "other", moved).get("reef", NATIVE, lock=read_lock(path))
    assert (image.key, image.packages) == (first.key, VERSIONS)
    assert moved.count("unpack") == 1
    assert not (image.root / PINS).exists(), "nothing of the lock gets into the image"
    assert make_store(tmp_path / "other", moved).get("reef", NATIVE, refresh=True).packages == NEWER


@pytest.mark.slow
def test_a_mirror_that_moved_on_is_refused_by_the_packages_names(tmp_path: Path) -> None:
    path = locked(tmp_path)
    moved = FakeTools(versions=NEWER | {"libnew": "1"}, older={"bash": VERSIONS["bash"]})
    with pytest.raises(LabBroken) as caught:
        make_store(tmp_path, moved).get("reef", NATIVE, lock=read_lock(path))
    assert caught.value.detail.splitlines() == [
        "ceph-osd: wanted 18.2.7+ds-1, got 18.2.8+ds-1",
        "libnew: wanted none, got 1",
    ]
    assert "--snapshot" in caught.value.hint
    assert moved.count("unpack") == 0
    assert make_store(tmp_path).get("reef", NATIVE).packages == VERSIONS, "what was there stays what it was"


@pytest.mark.slow
def test_other_bytes_under_the_same_version_are_refused(tmp_path: Path) -> None:
    lock = read_lock(locked(tmp_path))
    other = lock.packages[NATIVE]["bash"].model_copy(update={"sha256": "0" * 64})
    forged = replace(lock, packages={NATIVE: {**lock.packages[NATIVE], "bash": other}})
    with pytest.raises(LabBroken) as caught:
        make_store(tmp_path).get("reef", NATIVE, lock=forged)
    assert f"bash 5.2.37-2+b10: wanted {NATIVE.debian} {'0' * 64}, got {NATIVE.debian}" in caught.value.detail


@pytest.mark.slow
def test_a_lock_of_something_else_is_refused_before_anything_runs(tmp_path: Path) -> None:
    lock = read_lock(locked(tmp_path))
    path = tmp_path / "native.toml"
    path.write_text(lock.source.read_text().partition(f"[packages.{max(Arch)}]")[0])
    for words in (["pacific", "--lock", str(lock.source)], ["reef", "--arch", max(Arch), "--lock", str(path)]):
        known = world(tmp_path)
        done = call(known, "build", *words)
        assert (done.exit_code, known.tools.calls) == (2, [])
        assert f"does not cover {words[0]}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('release = "reef"', "", "release"),
        ("[packages.", "[package.", "package"),
        (sum_of(VERSIONS["bash"]), "12ab", "bash.sha256"),
        ('"5.2.37-2+b10"', r'"5 \nPin-Priority: 1"', "bash.version"),
        ('"bash"', '"b*"', "b*"),
        ("release =", "release", "is not TOML"),
    ],
)
def test_a_file_that_is_no_lock_is_refused_with_the_place(tmp_path: Path, old: str, new: str, place: str) -> None:
    path = locked(tmp_path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SpecError) as caught:
        read_lock(path)
    assert place in str(caught.value)


@pytest.mark.slow
def test_a_lock_is_written_anew_where_newer_packages_are_asked_for(tmp_path: Path) -> None:
    path = locked(tmp_path)
    done = call(world(tmp_path, FakeTools(versions=NEWER)), "build", "reef", "--lock", str(path), "--refresh")
    assert done.exit_code == 0, done.stderr
    assert {name: deb.version for name, deb in read_lock(path).packages[NATIVE].items()} == NEWER


@pytest.mark.slow
def test_the_command_builds_of_a_lock_with_the_role_sets_and_the_day_that_it_is_given(tmp_path: Path) -> None:
    path = locked(tmp_path)
    known = world(tmp_path / "other", FakeTools(versions=NEWER, older=VERSIONS))
    words = ["--arch", NATIVE.value, "--roles", "ceph", "--lock", str(path), "--snapshot", "2026-11-23"]
    done = call(known, "build", "reef", *words)
    assert done.exit_code == 0, done.stderr
    (image,) = make_store(tmp_path / "other").list()
    assert image.packages == VERSIONS
    assert known.asked == [datetime(2026, 11, 23)]
    assert call(known, "build", "reef", "--roles", "kernal").exit_code == 2


@pytest.mark.parametrize(("suite", "supported"), [("trixie", True), ("trixie", False), ("sid", True)])
def test_a_snapshot_is_of_one_moment_and_still_verified(tmp_path: Path, suite: str, *, supported: bool) -> None:
    ring = tmp_path / "ring.gpg"
    ring.touch()
    day = datetime(2026, 11, 23, 4, tzinfo=UTC)
    source = DebianSource("http://past.example/", keyrings=[tmp_path / "none.gpg", ring], snapshot=day)
    recipe = replace(BOOK.find("reef", NATIVE), suite=suite, supported=supported)
    base = f"deb [signed-by={ring}] http://past.example"
    wanted = [f"{base}/debian/20261123T040000Z {suite} main"]
    wanted += [f"{base}/debian/20261123T040000Z {suite}-updates main"] if suite != "sid" else []
    wanted += [f"{base}/debian-security/20261123T040000Z {suite}-security main"] if suite != "sid" and supported else []
    assert source.arguments(recipe) == wanted
    tools = FakeTools()
    resolve(tools, recipe, source, tmp_path)
    (argv,) = tools.argvs
    assert '--aptopt=Acquire::Check-Valid-Until "false"' in argv
    assert argv[-len(wanted) :] == wanted


def test_a_snapshot_takes_the_address_of_an_archive_of_them(tmp_path: Path) -> None:
    tools = FakeTools()
    source = DebianSource(snapshot=datetime(2026, 11, 23, tzinfo=UTC))
    with pytest.raises(SpecError) as caught:
        resolve(tools, BOOK.find("reef", NATIVE), source, tmp_path)
    assert "CEPHLAB_MIRROR" in caught.value.hint
    assert tools.calls == []


@pytest.mark.slow
def test_a_difference_is_said_package_by_package(tmp_path: Path) -> None:
    path = locked(tmp_path)
    known = world(tmp_path / "other", FakeTools(versions=NEWER | {"libnew": "1"}))
    assert call(known, "diff", str(path)).exit_code == 2, "there is no image to compare"
    call(known, "build", "reef", "--arch", NATIVE.value)
    done = call(known, "diff", str(path))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"reef for {NATIVE} (ceph): 3 packages differ from the lock",
        "  bash: wanted 5.2.37-2+b10, got 5.3-1",
        "  ceph-osd: wanted 18.2.7+ds-1, got 18.2.8+ds-1",
        "  libnew: wanted none, got 1",
    ]
    (value,) = json.loads(call(known, "diff", str(path), "--json").stdout)["images"]
    assert len(value["changes"]) == 3
    assert "0 packages" in call(world(tmp_path), "diff", str(path)).stdout


LOCKS = sorted((ROOT / "ci/locks").glob("*.toml"))


def test_the_default_release_has_a_lock() -> None:
    assert BOOK.default in [path.stem for path in LOCKS]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_the_repositorys_own_locks_are_whole(path: Path) -> None:
    lock: Lock = read_lock(path)
    assert (lock.release, set(lock.packages)) == (path.stem, set(BOOK.archs_of(path.stem)))
    for arch, debs in lock.packages.items():
        role_sets = [name for name, contents in BOOK.role_sets.items() if arch in contents.archs]
        asked = {name for roles in role_sets for name in BOOK.find(lock.release, arch, (roles,)).packages}
        assert asked - set(debs) == set()
        assert {deb.arch for deb in debs.values()} == {"all", arch.debian}
