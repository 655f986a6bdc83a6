"""Images built for real from Debian's archive: they run, they are whole after an interruption, engines take them."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pydantic
import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.home import Home
from cephlab.lab.images.image import Image
from cephlab.lab.images.store import ImageStore
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

NATIVE = host_arch()
FOREIGN = next(arch for arch in Arch if arch is not NATIVE)
REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = str(Path(pydantic.__file__).parents[1])
STRANGER = 54321  # a user id that nothing on the machine belongs to


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """An empty cache of its own; pytest would keep several gigabytes of it."""
    path = tmp_path_factory.mktemp("images")
    yield Home(path)
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def images(home: Home) -> dict[Arch, Image]:
    store = ImageStore(home)
    foreign = store.get(DEFAULT_RELEASE, FOREIGN, progress=print)
    native = store.cached(DEFAULT_RELEASE, NATIVE)
    assert native is not None, "the native image is built before the foreign one"
    return {NATIVE: native, FOREIGN: foreign}


def inside(image: Image, program: str, *arguments: str) -> list[str]:
    """The command that runs a program straight from an image's tree."""
    root = image.root
    libraries = f"{root}/usr/lib/{image.arch.triplet}:{root}/usr/lib/{image.arch.triplet}/ceph"
    loader = [f"{root}{image.arch.loader}", "--library-path", libraries, f"{root}/usr/bin/{program}", *arguments]
    if image.arch is NATIVE:
        return loader
    emulator = shutil.which(image.arch.qemu_user)
    if emulator is None:
        pytest.skip(f"{image.arch.qemu_user} is not installed (qemu-user-static)")
    return [emulator, "-L", str(root), *loader]


def output(argv: Sequence[str], **env: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **env})
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("arch", list(Arch))
def test_the_programs_of_an_image_run(images: dict[Arch, Image], arch: Arch) -> None:
    version = images[arch].ceph_version.partition("+")[0]
    for program in ("ceph-osd", "ceph-mon", "rados", "radosgw"):
        assert f"ceph version {version}" in output(inside(images[arch], program, "--version"))
    assert "fio-3" in output(inside(images[arch], "fio", "--version"))


@pytest.mark.parametrize("arch", list(Arch))
def test_python_loads_compiled_code_of_either_architecture(images: dict[Arch, Image], arch: Arch) -> None:
    root = images[arch].root
    code = "import rbd, cherrypy, sys; print(cherrypy.__cached__, cherrypy.__spec__.has_location, sys.version_info[0])"
    env = {"PYTHONHOME": f"{root}/usr", "PYTHONPATH": f"{root}/usr/lib/python3/dist-packages"}
    said = output(inside(images[arch], "python3", "-v", "-c", code), **env)
    assert "cherrypy/__pycache__" in said
    assert "wrote '" not in said, "nothing is left to be compiled at run time"


@pytest.mark.parametrize("arch", list(Arch))
def test_the_preload_is_of_the_images_architecture(images: dict[Arch, Image], arch: Arch) -> None:
    header = images[arch].aio_shim.read_bytes()[:20]
    assert int.from_bytes(header[18:20], "little") == arch.elf_machine


def test_a_cached_image_takes_no_tool_and_no_network(home: Home, images: dict[Arch, Image]) -> None:
    script = (
        "from cephlab.lab.images.store import ImageStore;"
        "from cephlab.lab.base.home import default_home;"
        "from cephlab.lab.spec.arch import Arch;"
        f"print(ImageStore(default_home()).get('{DEFAULT_RELEASE}', Arch('{FOREIGN}')).key)"
    )
    env = {"PATH": "/nowhere", "CEPHLAB_HOME": str(home.path), "http_proxy": "http://[::1]:1"}
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == images[FOREIGN].key


def test_a_refresh_without_news_keeps_the_image(home: Home, images: dict[Arch, Image]) -> None:
    lines: list[str] = []
    assert ImageStore(home).get(DEFAULT_RELEASE, NATIVE, refresh=True, progress=lines.append) == images[NATIVE]
    assert not [line for line in lines if "unpacking" in line]


BUILD = """
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.base.home import default_home
from cephlab.lab.images.store import ImageStore
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE

store = ImageStore(default_home())
image = store.get(DEFAULT_RELEASE, host_arch(), progress=lambda line: print(line, flush=True))
"""


def start_build(
    folder: Path, script: str, *, python: str = sys.executable, as_user: int | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "-c", script],
        cwd=REPOSITORY,
        env={**os.environ, "CEPHLAB_HOME": str(folder), "HOME": str(folder), "PYTHONPATH": PACKAGES},
        stdout=subprocess.PIPE,
        text=True,
        user=as_user,
        group=as_user,
        extra_groups=None if as_user is None else [],
    )


def read_until(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if word in line:
            return
    raise AssertionError(f"the build ended without saying {word!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_an_interrupted_build_leaves_no_half_image(tmp_path: Path, number: signal.Signals) -> None:
    child = start_build(tmp_path, BUILD)
    read_until(child, "unpacking")
    scratch = tmp_path / "images"
    clock.wait(
        lambda: [path.name for path in scratch.glob(".scratch-*/image/root/usr")],
        bool,
        what="an unpacked /usr",
        timeout_s=600,
    )
    child.send_signal(number)
    child.communicate()
    store = ImageStore(Home(tmp_path))
    assert store.list() == []
    if number is signal.SIGKILL:
        assert len(store.prune()) == 1
    assert list(scratch.glob(".scratch-*")) == []
    assert store.prune() == []


def python_for_all() -> str:
    """An interpreter that another user may run as well: root's own may live in root's home."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            argv = [python, "-c", "import pydantic, filelock, psutil"]
            subprocess.run(argv, user=STRANGER, group=STRANGER, env={"PYTHONPATH": PACKAGES}, check=True)
        except (PermissionError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip("there is no Python here that another user may run")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_builds_exports_and_removes() -> None:
    # pytest's own folders are closed to other users.
    folder = Path(output(["mktemp", "-d"]).strip())
    os.chown(folder, STRANGER, STRANGER)
    script = BUILD + "print(store.export(image, 'ext4'), flush=True)\nstore.remove(image)\nprint(store.list())\n"
    try:
        child = start_build(folder, script, python=python_for_all(), as_user=STRANGER)
        said, _ = child.communicate(timeout=900)
        assert child.returncode == 0, said
        assert "root.ext4" in said
        assert said.endswith("[]\n")
        assert [path for path in (folder / "images").iterdir() if not path.name.startswith(".")] == []
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("arch", list(Arch))
def test_an_engine_takes_the_export_and_keeps_its_label(home: Home, images: dict[Arch, Image], arch: Arch) -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no container engine answers")
    image = images[arch]
    archive = ImageStore(home).export(image, "oci")
    known = subprocess.run([docker, "image", "inspect", image.oci_name], capture_output=True, check=False)
    output([docker, "load", "-i", str(archive)])
    try:
        label = output([docker, "image", "inspect", "--format", "{{.Os}}/{{.Architecture}}", image.oci_name])
        assert label.strip() == f"linux/{arch.debian}"
        if arch is NATIVE:
            assert output([docker, "run", "--rm", "--network=none", image.oci_name, "uname", "-m"]).strip() == arch
    finally:
        # Another run may be using it: what was there before stays, and what came into use meanwhile too.
        if known.returncode != 0:
            subprocess.run([docker, "rmi", image.oci_name], capture_output=True, check=False)
