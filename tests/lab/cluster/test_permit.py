"""The list of what a run may touch on an existing cluster: how it is written, told and refused."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster.attach.permit import HINT, Permit, PermittedDisk, read_permit
from tests.lab.cluster.test_attach_guard import INVENTORY, PERMIT

WRITTEN = """
pools = ["mine"]
daemons = ["osd.3", "mon.b"]
hosts = ["client"]
disks = ["client:/dev/sdx"]
buckets = ["my-bucket"]
"""


def test_the_list_is_read_from_a_file_or_from_words(tmp_path: Path) -> None:
    path = tmp_path / "may-break.toml"
    path.write_text(WRITTEN)
    words = "pool:mine,daemon:osd.3,daemon:mon.b, host:client,disk:client:/dev/sdx,bucket:my-bucket"
    assert read_permit(str(path), INVENTORY) == read_permit(words, INVENTORY) == PERMIT
    assert read_permit(None, INVENTORY).read_only


@pytest.mark.parametrize(
    ("word", "permit"),
    [
        ("pool:a", Permit(pools=frozenset({"a"}))),
        ("daemon:osd.3", Permit(daemons=frozenset({"osd.3"}))),
        ("host:client", Permit(hosts=frozenset({"client"}))),
        ("disk:client:/dev/sdx", Permit(disks=frozenset({PermittedDisk("client", "/dev/sdx")}))),
        ("bucket:abc", Permit(buckets=frozenset({"abc"}))),
    ],
)
def test_what_the_list_does_not_name_stays_untouched(word: str, permit: Permit) -> None:
    assert read_permit(word, INVENTORY) == permit
    assert not permit.read_only
    [kind] = [kind for kind, names in permit.to_json().items() if names]
    told = [line.partition(": ")[2] for line in permit.describe()]
    assert told == [permit.to_json()[kind][0] if key == kind else "none" for key in permit.to_json()]


def test_a_disk_is_named_by_the_last_part_of_its_path_which_may_have_colons() -> None:
    permit = read_permit("disk:client:/dev/disk/by-path/pci-0000:01:00.0", INVENTORY)
    [disk] = permit.disks
    assert (disk.host, disk.path, disk.name) == ("client", "/dev/disk/by-path/pci-0000:01:00.0", "pci-0000:01:00.0")
    assert str(disk) == "client:/dev/disk/by-path/pci-0000:01:00.0"


def test_the_list_is_told_as_a_whole() -> None:
    assert [line.partition(": ")[2] for line in PERMIT.describe()] == [
        "mine",
        "mon.b, osd.3",
        "client",
        "client:/dev/sdx",
        "my-bucket",
    ]
    assert "read-only" in Permit().describe()[0]
    assert Permit().to_json() == {"pools": [], "daemons": [], "hosts": [], "disks": [], "buckets": []}


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"mine"', '"*"', "pools.0: got '*'"),
        ('"mine"', '"a, allow rwx pool=b"', "pools.0"),
        ('"osd.3"', '"osd.*"', "daemons.0: got 'osd.*'"),
        ('hosts = ["client"]', 'hosts = ["nobody"]', "hosts: got 'nobody', wanted: one of client"),
        ('"client:/dev/sdx"', '"nobody:/dev/sdx"', "disks: got 'nobody'"),
        ('"client:/dev/sdx"', '"/dev/sdx"', "disks.0: got '/dev/sdx', wanted: HOST:/dev/NAME"),
        ('"my-bucket"', '"my-*"', "buckets.0: got 'my-*'"),
        ('"my-bucket"', '"ab"', "buckets.0: got 'ab'"),
        ("pools", "pool", "pool: unknown key"),
        ("pools", "pools = [", "is not TOML"),
    ],
)
def test_what_is_wrong_with_the_list_is_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    path = tmp_path / "may-break.toml"
    path.write_text(WRITTEN.replace(old, new))
    with pytest.raises(SpecError) as caught:
        read_permit(str(path), INVENTORY)
    assert named in str(caught.value)
    assert "may-break.toml" in caught.value.what
    assert caught.value.hint == ("fix the line that is named" if named == "is not TOML" else HINT)


@pytest.mark.parametrize("words", ["pool:", "everything:x", "pool:a,", "pool:*"])
def test_words_that_name_nothing_are_refused(words: str) -> None:
    with pytest.raises(SpecError):
        read_permit(words, INVENTORY)


def test_every_machine_that_the_inventory_lacks_is_named() -> None:
    with pytest.raises(SpecError, match="--may-break names a machine") as caught:
        read_permit("host:other,disk:nobody:/dev/b,disk:nobody:/dev/a,host:another", INVENTORY)
    named = [line.partition(", wanted")[0] for line in caught.value.detail.splitlines()]
    assert named == ["hosts: got 'another'", "hosts: got 'other'", "disks: got 'nobody'", "disks: got 'nobody'"]


def test_a_file_that_is_not_there_is_refused_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.toml") as caught:
        read_permit(str(tmp_path / "none.toml"), INVENTORY)
    assert "does not understand" not in caught.value.what
    assert caught.value.hint == HINT
