"""The C preloads: compiled and put through their own test program, natively and under emulation."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from cephlab.lab.base import process
from cephlab.lab.base.errors import CommandFailed, Unavailable
from cephlab.lab.images.shim import compiler as shim
from cephlab.lab.spec.arch import Arch, host_arch

NATIVE = host_arch()
FOREIGN = next(arch for arch in Arch if arch is not NATIVE)

CASES = {
    "read_after_write",
    "short_read",
    "vectored",
    "sync_file",
    "bad_descriptors",
    "error_in_event",
    "bad_opcode",
    "bad_arguments",
    "timeouts",
    "signals",
    "counts",
    "full",
    "destroy_in_flight",
    "destroy_wakes",
    "many_threads",
    "event_descriptor",
    "cancelling",
    "queue_calls",
    "after_fork",
}

OLDEST_GLIBC = (2, 36)
"""That of bookworm, the oldest suite in the recipe: a preload that wants a newer symbol kills its daemons at start."""


@dataclass(frozen=True)
class Toolchain:
    """How one architecture's programs are made and run here; `directory` holds its test program."""

    arch: Arch
    directory: Path

    def build(self, source: str, name: str, *defines: str) -> Path:
        """Once, however many tests want it by this name."""
        target = self.directory / name
        if not target.exists():
            shim.build(self.arch, source, target, defines=defines)
        return target

    def run_aio_test(self, preload: Path, workers: int = 2) -> process.Result:
        program, file = str(self.directory / "aio_test"), str(self.directory / "file")
        env = {"CEPHLAB_AIO_WORKERS": str(workers)}
        if self.arch is NATIVE:
            return process.run([program, file], env={**env, "LD_PRELOAD": str(preload)}, check=False)
        emulator = [self.arch.qemu_user, "-E", f"LD_PRELOAD={preload}", "-L", f"/usr/{self.arch.triplet}"]
        return process.run([*emulator, program, file], env=env, check=False)


@pytest.fixture(scope="module", params=[NATIVE, FOREIGN], ids=str)
def toolchain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    arch: Arch = request.param
    made = Toolchain(arch, tmp_path_factory.mktemp(arch))
    try:
        made.build("aio_test.c", "aio_test")
    except Unavailable as reason:
        pytest.skip(str(reason))
    if arch is not NATIVE and shutil.which(arch.qemu_user) is None:
        pytest.skip(f"{arch.qemu_user} is missing: install qemu-user-static")
    return made


def verdicts(result: process.Result) -> dict[str, str]:
    """Case -> its line, as aio_test printed it."""
    lines = result.stdout.splitlines()
    return {line.removeprefix("not ").removeprefix("ok ").partition(":")[0]: line for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_aio_behaves_as_libaio(toolchain: Toolchain, workers: int) -> None:
    result = toolchain.run_aio_test(toolchain.build(shim.AIO, "aio.so"), workers)
    assert result.code == 0, result.stdout + result.stderr
    assert verdicts(result) == {name: f"ok {name}" for name in CASES}


@pytest.mark.slow
def test_a_lost_write_is_noticed(toolchain: Toolchain) -> None:
    result = toolchain.run_aio_test(toolchain.build(shim.AIO, "broken.so", "CEPHLAB_BREAK_DROP_WRITE"))
    assert result.code == 1
    red = {name for name, line in verdicts(result).items() if line.startswith("not ok")}
    assert {"read_after_write", "destroy_in_flight", "many_threads"} <= red
    assert "short_read" not in red


@pytest.mark.slow
def test_the_program_wants_its_preload(toolchain: Toolchain) -> None:
    innocent = toolchain.build(shim.CRC_ZERO, "crc.so")
    result = toolchain.run_aio_test(innocent)
    assert result.code == 2
    assert "is the shared object preloaded?" in result.stderr
    assert "no ceph_crc32c_func in" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("source", [shim.AIO, shim.CRC_ZERO])
def test_preloads_load_into_the_oldest_release(toolchain: Toolchain, source: str) -> None:
    with toolchain.build(source, {shim.AIO: "aio.so", shim.CRC_ZERO: "crc.so"}[source]).open("rb") as stream:
        elf = ELFFile(stream)
        assert elf["e_machine"] == {62: "EM_X86_64", 183: "EM_AARCH64"}[toolchain.arch.elf_machine]
        needed = elf.get_section_by_name(".gnu.version_r")
        assert isinstance(needed, GNUVerNeedSection)
        names = [version.name for _, versions in needed.iter_versions() for version in versions]
    wanted = [tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in names if name.startswith("GLIBC_")]
    assert wanted
    assert max(wanted) <= OLDEST_GLIBC


def test_missing_compiler_names_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for arch in Arch:
        with pytest.raises(Unavailable) as caught:
            shim.build(arch, shim.AIO, tmp_path / "out.so")
        assert caught.value.hint == f"install the packages {' '.join(shim.packages(arch))}"
    assert list(tmp_path.iterdir()) == []


def test_packages_of_a_foreign_architecture() -> None:
    names = {
        Arch.AARCH64: ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
        Arch.X86_64: ("gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"),
    }
    assert shim.packages(FOREIGN) == names[FOREIGN]
    assert shim.packages(NATIVE) == ("gcc", "libc6-dev")


@pytest.mark.parametrize(
    ("stderr", "lacks"),
    [
        ("aio.c:25:10: fatal error: errno.h: No such file or directory", True),
        ("/usr/bin/ld: cannot find crti.o: No such file or directory", True),
        ("aio.c:30:5: error: unknown type name 'uint'", False),
    ],
)
def test_a_missing_c_library_is_told_from_a_bad_source(stderr: str, lacks: bool) -> None:
    assert shim.lacks_library(stderr) is lacks


@pytest.mark.slow
def test_a_refused_source_leaves_nothing(toolchain: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as caught:
        shim.build(toolchain.arch, shim.AIO, tmp_path / "out.so", defines=["io_context=42"])
    assert "error:" in caught.value.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("changed", [shim.AIO, shim.AIO_QUEUE, shim.CRC_ZERO])
def test_digest_follows_every_preload(tmp_path: Path, changed: str) -> None:
    for name in (shim.AIO, shim.AIO_QUEUE, shim.CRC_ZERO):
        shutil.copy(shim.SOURCES / name, tmp_path)
    assert shim.source_digest(tmp_path) == shim.source_digest()
    (tmp_path / changed).write_text((tmp_path / changed).read_text() + "\n")
    assert shim.source_digest(tmp_path) != shim.source_digest()
