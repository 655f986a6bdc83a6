"""Every provider: files to and from a host."""

import random
from pathlib import Path, PurePosixPath

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.host import Host
from tests.contract.probes import scratch

pytestmark = [pytest.mark.real]


def test_bytes_are_pushed_and_read(host: Host) -> None:
    target = scratch(host) / "below" / "grüße 雪"
    host.push(b"\x00first", target)
    assert host.read(target) == b"\x00first"
    host.push(b"second", target)
    assert host.read(target) == b"second"
    assert host.run(("cat", str(target))).stdout == "second"


def test_a_large_file_goes_there_and_back(host: Host, tmp_path: Path) -> None:
    data = random.Random(3).randbytes(20_000_000)
    (tmp_path / "there").write_bytes(data)
    target = scratch(host)
    host.push(tmp_path / "there", target)
    host.pull(target, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_a_file_has_the_mode_asked_for(host: Host, mode: int) -> None:
    target = scratch(host)
    host.push(b"secret", target, mode=mode)
    assert host.run(("stat", "-c", "%a", str(target))).stdout.strip() == f"{mode:o}"


def test_pushing_leaves_the_directories_above_as_they_are(host: Host) -> None:
    directory = scratch(host)
    host.make_directory(directory)
    host.run(("chmod", "0710", str(directory)))
    host.push(b"x", directory / "file")
    assert host.run(("stat", "-c", "%a", str(directory))).stdout.strip() == "710"


def test_an_empty_file_is_a_file(host: Host) -> None:
    target = scratch(host)
    host.push(b"", target)
    assert host.exists(target)
    assert host.read(target) == b""


def test_a_link_is_followed(host: Host) -> None:
    target = scratch(host)
    host.push(b"behind", target)
    link = target.with_name(target.name + "-link")
    host.run(("ln", "-s", target.name, str(link)))
    assert host.read(link) == b"behind"


def test_what_is_not_there_cannot_be_read(host: Host, tmp_path: Path) -> None:
    missing = scratch(host)
    assert not host.exists(missing)
    with pytest.raises(LabBroken, match=missing.name):
        host.read(missing)
    with pytest.raises(LabBroken, match=missing.name):
        host.pull(missing, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_directory_is_made_once_and_again(host: Host) -> None:
    directory = scratch(host) / "a" / "b"
    host.make_directory(directory)
    host.make_directory(directory)
    assert host.exists(directory)
    with pytest.raises(LabBroken, match="b"):
        host.read(directory)


def test_removing_takes_files_and_whole_directories(host: Host) -> None:
    directory = scratch(host)
    host.push(b"x", directory / "deep" / "file")
    host.push(b"y", directory / "other")
    host.remove(directory / "other")
    assert not host.exists(directory / "other")
    assert host.exists(directory / "deep" / "file")
    host.remove(directory)
    assert not host.exists(directory)
    host.remove(directory)


def test_the_directory_is_short_enough_for_sockets(host: Host) -> None:
    longest = host.directory / "ceph-client.admin.1234567.94850123456789.asok"
    assert len(str(longest)) <= 107
    assert isinstance(host.root, PurePosixPath)
