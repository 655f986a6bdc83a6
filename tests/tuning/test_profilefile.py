"""Profiles: what is shipped loads, what does not fit is refused by file, key, got and wanted."""

from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.profile import DiskKind, DiskRole
from cephlab.tuning.profilefile import SHIPPED, find_profile, load_hardware, load_profile, profile_files, to_toml
from cephlab.tuning.units import Measure, parse, show

SOUND = """
name = "small"
title = "One node"

[network]
rtt = { value = "50 us", source = "measured" }

[[nodes]]
name = "n"
count = 1
arch = "x86_64"
cores = 4
threads_per_core = 2
core_speed = { value = "5 points", source = "measured" }
memory = { value = "16 GiB", source = "measured" }
bandwidth = { value = "10 Gb/s", source = "rated" }

[[nodes.disks]]
name = "d"
kind = "nvme"
count = 2
size = { value = "1 TB", source = "rated" }
write_iops = { value = "100000 IOPS", source = "rated" }

[[clients]]
name = "c"
count = 1
arch = "x86_64"
cores = 4
threads_per_core = 1
core_speed = { value = "5 points", source = "measured" }
memory = { value = "16 GiB", source = "measured" }
bandwidth = { value = "10 Gb/s", source = "rated" }
"""
CLIENT = SOUND[SOUND.index("[[clients]]") :]
DISK = SOUND[SOUND.index("[[nodes.disks]]") : SOUND.index("[[clients]]")]
CACHE = DISK.replace("nodes", "clients").replace('"d"', '"e"\nrole = "cache"')


def _written(folder: Path, text: str, name: str = "small") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_a_profile_is_read_in_the_units_of_the_model(tmp_path: Path) -> None:
    cluster = load_profile(_written(tmp_path, SOUND))

    node = cluster.nodes[0]
    assert node.bandwidth.value == 1.25e9
    assert node.points == 20
    assert cluster.rtt.value == pytest.approx(50e-6)
    assert cluster.osds == 2
    assert node.disks[0].kind is DiskKind.NVME
    assert node.memory.source == "measured"


@pytest.mark.parametrize(
    ("was", "becomes", "key", "wanted"),
    [
        ("cores = 4", "cores = 4\ncoers = 4", "coers", "unknown key"),
        ('value = "16 GiB"', 'value = "16"', "nodes.0.memory", "unit"),
        ('value = "16 GiB"', 'value = "16 apples"', "nodes.0.memory", "GiB"),
        ('value = "16 GiB"', 'value = "16 IOPS"', "nodes.0.memory", "GiB"),
        ('value = "16 GiB"', 'value = "-16 GiB"', "nodes.0.memory", "above 0"),
        ('value = "16 GiB"', 'value = "0 GiB"', "nodes.0.memory", "above 0"),
        ('value = "10 Gb/s"', f'value = "{"9" * 400} Gb/s"', "nodes.0.bandwidth", "a finite figure"),
        ('{ value = "16 GiB", source = "measured" }', '"16 GiB"', "nodes.0.memory", "source"),
        ('{ value = "16 GiB", source = "measured" }', '{ value = "16 GiB" }', "nodes.0.memory", "source"),
        ("count = 1", "count = -1", "nodes.0.count", "1 or more"),
        ("cores = 4", "cores = true", "nodes.0.cores", "whole number"),
        ('arch = "x86_64"', 'arch = "sparc"', "nodes.0.arch", "aarch64"),
        ('kind = "nvme"', 'kind = "tape"', "nodes.0.disks.0.kind", "hdd"),
        ('name = "d"', 'name = "D isk"', "nodes.0.disks.0.name", "text of the form"),
        ('name = "c"', 'name = "n"', "nodes.name and clients.name: got", "more than once: n"),
        (CLIENT, CLIENT + DISK.replace("nodes", "clients"), "clients.0: disks", "is a client"),
        ('kind = "nvme"', 'kind = "nvme"\nrole = "cache"', "", "data disk"),
        (DISK, DISK + CACHE.replace("clients", "nodes"), "nodes.0: disks", "the role cache is for clients"),
        (CLIENT, CLIENT + CACHE + CACHE, "clients.0: disks.name: got", "more than once: e"),
        (CLIENT, f"{CLIENT}gateways = 2\n", "clients.0: gateways", "is a client"),
        (DISK, DISK + DISK, "nodes.0: disks.name: got", "more than once: d"),
        (CLIENT, "", "clients: ", "either [[clients]] or clients_on_nodes"),
        ("[network]", "clients_on_nodes = true\n[network]", "", "not both"),
        ('kind = "nvme"', 'kind = "nvme"\nrole = "metadata"', "", "data disk"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, was: str, becomes: str, key: str, wanted: str) -> None:
    path = _written(tmp_path, SOUND.replace(was, becomes, 1))

    with pytest.raises(SpecError) as caught:
        load_profile(path)

    assert str(path) in caught.value.what
    assert key in caught.value.detail
    assert wanted in caught.value.detail
    # One finding, one line, and never the whole table as a dict.
    assert len(caught.value.detail.splitlines()) == 1
    assert "{'" not in caught.value.detail


def test_a_client_may_have_a_disk_as_its_cache(tmp_path: Path) -> None:
    cluster = load_profile(_written(tmp_path, SOUND.replace(CLIENT, CLIENT + CACHE)))
    (disk,) = cluster.clients[0].disks
    assert (disk.role, disk.name) == (DiskRole.CACHE, "e")
    assert cluster.osds == 2
    assert "c.e.write_iops" in dict(cluster.figures())
    (again,) = load_profile(_written(tmp_path, to_toml(cluster))).clients[0].disks
    assert again.role is DiskRole.CACHE


def test_a_file_must_be_named_as_its_profile(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="wanted: 'other'"):
        load_profile(_written(tmp_path, SOUND, "other"))


def test_a_change_that_does_not_fit_is_named_and_not_the_file(tmp_path: Path) -> None:
    path = _written(tmp_path, SOUND)
    with pytest.raises(SpecError) as caught:
        load_hardware(path, ["nodes.count=x"])
    assert caught.value.what == f"{path.stem} with nodes.count=x is not a profile"


def test_what_is_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is not TOML"):
        load_profile(_written(tmp_path, "name = "))


@pytest.mark.parametrize("name", sorted(path.stem for path in SHIPPED.glob("*.toml")))
def test_shipped_profiles_are_sound(tmp_path: Path, name: str) -> None:
    cluster = find_profile(name, tmp_path)

    assert cluster.osds > 0
    assert all(figure.source for _, figure in cluster.figures())


def test_the_mixed_profile_has_both_architectures(tmp_path: Path) -> None:
    assert {str(node.arch) for node in find_profile("altra-3n-epyc-1n", tmp_path).nodes} == {"x86_64", "aarch64"}


def test_the_users_own_come_before_the_shipped(tmp_path: Path) -> None:
    _written(tmp_path, SOUND)

    assert profile_files(tmp_path)["small"].parent == tmp_path
    assert find_profile("small", tmp_path).title == "One node"


def test_an_unknown_profile_names_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="ampere-altra-4n"):
        find_profile("nonesuch", tmp_path)
    with pytest.raises(SpecError, match="cephlab probe"):
        find_profile("this-machine", tmp_path)


@pytest.mark.parametrize("name", ["rhcs-10b-6n", "pve-epyc-3n", "ampere-altra-4n"])
def test_a_profile_survives_being_written_and_read(tmp_path: Path, name: str) -> None:
    cluster = find_profile(name, tmp_path)
    again = load_profile(_written(tmp_path, to_toml(cluster), name))

    assert again.missing == cluster.missing
    assert [str(figure) for _, figure in again.figures()] == [str(figure) for _, figure in cluster.figures()]
    assert again.threads == cluster.threads
    assert again.nodes[0].disks[-1].role == cluster.nodes[0].disks[-1].role


def test_the_gateways_of_nvmeof_survive_too(tmp_path: Path) -> None:
    cluster = replace(find_profile("kunpeng920", tmp_path), nvmeof_cores=16)
    assert load_profile(_written(tmp_path, to_toml(cluster), "kunpeng920")).nvmeof_cores == 16


def test_figures_are_shown_with_the_largest_unit_that_fits() -> None:
    assert show(1.25e9, Measure.RATE) == "1.25 GB/s"
    assert show(50e-6, Measure.TIME) == "50 us"
    assert parse("2.5 ms", Measure.TIME) == pytest.approx(0.0025)
