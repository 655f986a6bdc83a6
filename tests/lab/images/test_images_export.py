"""Exports of a tiny tree with the real tar and mke2fs: labels, digests, content, owners, and once per key."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import CommandFailed, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.images import cache as cache_module
from cephlab.lab.images import store as store_module
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.export import Form, export_image
from cephlab.lab.images.image import Image, pulled_image
from cephlab.lab.images.tools import SystemTools
from cephlab.lab.providers.engine.provider import exporter
from cephlab.lab.spec.arch import Arch, host_arch
from tests.fake_image_tools import FOREIGN, FakePreload, FakeTools, make_store

NATIVE = host_arch()
# A native image's programs are enough: no test runs them, the label alone says what they are.
ARCHS = (NATIVE, FOREIGN)
needs_mke2fs = pytest.mark.skipif(SystemTools().locate("mke2fs") is None, reason="mke2fs (e2fsprogs) is not installed")


@dataclass
class CountingTools:
    """The machine's own tar and mke2fs. failing: program -> its last words instead of its work."""

    failing: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    started: list[str] = field(default_factory=list)

    def locate(self, program: str) -> str | None:
        return None if program in self.missing else SystemTools().locate(program)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> Result:
        name = Path(argv[0]).name
        assert name in {"tar", "mke2fs", "debugfs"}, f"unexpected command {argv}"
        self.started.append(name)
        if name in self.failing:
            raise CommandFailed(argv, 2, "", self.failing[name], "this machine")
        return process.run(argv, timeout_s=timeout_s, env=env, check=check)


@dataclass
class Built:
    """A built image and the means to export it."""

    home: Home
    image: Image
    tools: CountingTools = field(default_factory=CountingTools)

    def export(self, form: Form, tools: CountingTools | None = None) -> Path:
        return export_image(self.home, Cache(self.home), tools or self.tools, self.image, form, lambda _line: None)


@pytest.fixture(params=ARCHS, ids=str)
def built(tmp_path: Path, request: pytest.FixtureRequest) -> Built:
    return build(tmp_path, request.param)


def build(folder: Path, arch: Arch) -> Built:
    store = make_store(folder, FakeTools(), FakePreload())
    image = store.get("reef", arch)
    (image.root / "usr/bin/absolute").symlink_to("/root/target")
    (image.root / "usr/bin/hard").hardlink_to(image.root / "usr/bin/bash")
    (image.root / "dev/null-or-so").write_bytes(b"a node")
    (image.root / "usr/share/wörter").write_bytes(b"inhalt" * 1000)
    return Built(Home(folder / "home"), image)


def members(archive: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(archive) as tar:
        return {entry.name: entry for entry in tar}


def content(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def blob(archive: Path, digest: str) -> bytes:
    algorithm, _, value = digest.partition(":")
    blob_bytes = content(archive, f"blobs/{algorithm}/{value}")
    assert hashlib.sha256(blob_bytes).hexdigest() == value, "a blob is named by its hash"
    return blob_bytes


def read_json(archive: Path, name: str) -> Any:
    return json.loads(content(archive, name))


@pytest.mark.slow
def test_the_oci_archive_names_its_architecture_everywhere(built: Built) -> None:
    archive = built.export("oci")
    assert read_json(archive, "oci-layout") == {"imageLayoutVersion": "1.0.0"}
    [entry] = read_json(archive, "index.json")["manifests"]
    assert entry["platform"] == {"architecture": built.image.arch.debian, "os": "linux"}
    manifest = json.loads(blob(archive, entry["digest"]))
    config = json.loads(blob(archive, manifest["config"]["digest"]))
    assert (config["architecture"], config["os"]) == (built.image.arch.debian, "linux")
    assert config["config"]["Labels"]["cephlab.key"] == built.image.key


@pytest.mark.slow
def test_the_oci_archive_holds_the_tree_and_its_hashes(built: Built) -> None:
    archive = built.export("oci")
    [entry] = read_json(archive, "index.json")["manifests"]
    manifest = json.loads(blob(archive, entry["digest"]))
    [layer] = manifest["layers"]
    data = blob(archive, layer["digest"])
    assert len(data) == layer["size"]
    config = json.loads(blob(archive, manifest["config"]["digest"]))
    assert config["rootfs"] == {"type": "layers", "diff_ids": [layer["digest"]]}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
        assert {"./etc/passwd", "./usr/bin/ceph-osd", "./usr/share/wörter", "./dev"} <= set(names)
        assert "./dev/null-or-so" not in names, "an engine brings its own devices"
        assert {(entry.uid, entry.gid) for entry in tar} == {(0, 0)}
        assert tar.getmember("./usr/bin/absolute").linkname == "/root/target"


@pytest.mark.slow
def test_engines_that_know_only_dockers_manifest_are_served(built: Built) -> None:
    archive = built.export("oci")
    [entry] = read_json(archive, "manifest.json")
    arch, key = built.image.arch.debian, built.image.key
    assert entry["RepoTags"] == [f"cephlab/reef-{arch}:{key[:12]}"] == [built.image.oci_name]
    assert {entry["Config"], *entry["Layers"]} <= set(members(archive))


@pytest.mark.slow
def test_equal_images_give_equal_archives(tmp_path: Path) -> None:
    built = build(tmp_path, NATIVE)
    first = built.export("oci")
    digest = hashlib.sha256(first.read_bytes()).hexdigest()
    first.unlink()
    assert hashlib.sha256(built.export("oci").read_bytes()).hexdigest() == digest


@pytest.mark.slow
def test_the_lxd_tar_is_one_that_starts_here(built: Built) -> None:
    archive = built.export("lxd")
    metadata = read_json(archive, "metadata.yaml")
    assert metadata["architecture"] == NATIVE.value
    assert metadata["properties"]["cephlab.arch"] == built.image.arch.value
    entries = members(archive)
    assert {"rootfs/usr/sbin/init", "rootfs/etc/passwd", "rootfs/dev"} <= set(entries)
    assert "rootfs/dev/null-or-so" not in entries
    assert not [name for name in entries if name.startswith("root/")]
    assert entries["rootfs/usr/bin/absolute"].linkname == "/root/target", "a link's target is not renamed"
    hard = entries["rootfs/usr/bin/hard"]
    assert hard.isfile() or hard.linkname == "rootfs/usr/bin/bash", "a hard link's target is"
    assert {(entry.uid, entry.gid) for entry in entries.values() if entry.name.startswith("rootfs")} == {(0, 0)}


@pytest.mark.slow
@needs_mke2fs
def test_the_disk_holds_the_tree_and_has_room(tmp_path: Path) -> None:
    built = build(tmp_path, FOREIGN)
    disk = built.export("ext4")
    debugfs = SystemTools().locate("debugfs")
    assert debugfs is not None

    def ask(question: str) -> str:
        return subprocess.run([debugfs, "-R", question, disk], capture_output=True, text=True, check=True).stdout

    assert ask("cat /etc/hostname") == "cephlab\n"
    for name in ("/", "/etc", "/usr/bin/ceph-osd", "/usr/bin/absolute", "/usr/share/doc/bash/copyright"):
        assert "User:     0   Group:     0" in ask(f"stat {name}"), name
    assert "cephlab" in ask("stats").partition("UUID")[0]
    assert disk.stat().st_size > 2 << 30
    assert disk.stat().st_blocks * 512 < disk.stat().st_size / 4, "the disk is sparse"


@pytest.mark.slow
@needs_mke2fs
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_the_disk_of_an_ordinary_users_tree_is_roots(tmp_path: Path) -> None:
    built = build(tmp_path, NATIVE)
    for path in (built.image.root, *built.image.root.rglob("*")):
        os.chown(path, 70000, 70000, follow_symlinks=False)
    disk = built.export("ext4")
    listing = subprocess.run(
        [str(SystemTools().locate("debugfs")), "-R", "ls -l /usr/bin", disk], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in listing.splitlines() if line.strip()]
    assert len(rows) > 10
    assert {(row[3], row[4]) for row in rows} == {("0", "0")}
    check = subprocess.run(
        [str(SystemTools().locate("e2fsck")), "-fn", disk], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout


@needs_mke2fs
@pytest.mark.parametrize(("form", "program"), [("oci", "tar"), ("lxd", "tar"), ("ext4", "mke2fs")])
def test_a_form_is_made_once_per_key(tmp_path: Path, form: Form, program: str) -> None:
    built = build(tmp_path, NATIVE)
    first = built.export(form)
    stamp = first.stat().st_mtime_ns
    assert built.export(form) == first
    assert first.stat().st_mtime_ns == stamp
    assert built.tools.started.count(program) == 1


def test_the_directory_is_the_tree_itself(tmp_path: Path) -> None:
    built = build(tmp_path, NATIVE)
    assert built.export("directory") == built.image.root
    assert built.tools.started == []


@pytest.mark.parametrize("form", ["oci", "lxd"])
def test_an_export_that_fails_leaves_nothing_and_can_be_repeated(tmp_path: Path, form: Form) -> None:
    built = build(tmp_path, NATIVE)
    with pytest.raises(CommandFailed, match="status 2"):
        built.export(form, CountingTools(failing={"tar": "Cannot write"}))
    assert not (built.image.root.parent / "exports").exists()
    assert [path.name for path in built.home.images.glob(".scratch-*")] == []
    assert built.export(form).exists()


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path) -> None:
    built = build(tmp_path, NATIVE)
    with pytest.raises(Unavailable, match="mke2fs is not installed") as caught:
        built.export("ext4", CountingTools(missing=frozenset({"mke2fs"})))
    assert "e2fsprogs" in caught.value.hint


class FullHome(Home):
    """A home on a disk that is nearly full."""

    def free_bytes(self) -> int:
        return 1000


def test_too_little_disk_is_refused_before_tar_starts(tmp_path: Path) -> None:
    built = build(tmp_path, NATIVE)
    built.home = FullHome(built.home.path)
    with pytest.raises(SpecError, match="too little disk space for exporting reef"):
        built.export("oci")
    assert built.tools.started == []


def test_what_has_no_tree_cannot_be_exported(tmp_path: Path) -> None:
    built = build(tmp_path, NATIVE)
    shutil.rmtree(built.image.root.parent)
    with pytest.raises(SpecError, match="has no tree to export"):
        built.export("oci")
    built.image = pulled_image("squid", NATIVE, "registry.example/ceph:v19", tmp_path)
    with pytest.raises(SpecError, match=r"image registry\.example/ceph:v19\S* has no tree to export"):
        built.export("oci")


def test_an_unknown_form_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    built = build(tmp_path, NATIVE)
    with pytest.raises(SpecError, match="known: oci, ext4, lxd, directory"):
        built.export("qcow2")  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_image_and_its_exports_go_together(tmp_path: Path) -> None:
    built = build(tmp_path, NATIVE)
    archive = built.export("oci")
    make_store(tmp_path).remove(built.image)
    assert not archive.exists()
    assert cache_module.Cache(built.home).all() == []


def test_a_provider_that_exports_an_image_tells_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporting takes about a minute, in which nothing else is shown."""
    said: list[str] = []

    def export(*arguments: Any) -> Path:
        arguments[-1]("exporting")
        return tmp_path

    monkeypatch.setattr(store_module, "export_image", export)
    image = Image("reef", host_arch(), "1" * 64, tmp_path)
    assert exporter(Home(tmp_path), "oci", said.append)(image) == tmp_path
    assert said == ["exporting"]
