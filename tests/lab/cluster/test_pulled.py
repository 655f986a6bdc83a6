"""A pulled image is what its programs and the engine say, whatever it is called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from cephlab.fixtures.facts import image_facts
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.cluster.own import OwnCluster, described, identified
from cephlab.lab.images.image import Image, pulled_image
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import UNKNOWN_RELEASE, ClusterSpec
from cephlab.lab.spec.layout import CephSetup, build_spec

REFERENCE = "example/ceph:reef"
SQUID = "ceph version 19.2.1 (58a7fab8be0a062d730ad7da874972fd3fba59fb) squid (stable)"
REEF = "ceph version 18.2.7 (58a7fab8be0a062d730ad7da874972fd3fba59fb) reef (stable)"
DIGEST = f"example/ceph@sha256:{'d' * 64}"


@dataclass
class Host:
    """A node that says which Ceph it has, and nothing else."""

    name: str
    arch: Arch
    says: str

    def run(self, argv: Sequence[str], **options: Any) -> Result:
        assert argv == ["ceph-osd", "--version"]
        return Result(tuple(argv), 0, self.says.encode(), b"")


@dataclass
class Lab:
    """Knows what the nodes of each architecture are made from."""

    def pulled_image(self, arch: Arch) -> tuple[str, tuple[str, ...]]:
        return f"sha256:{arch}", (DIGEST,)


@dataclass
class Mute:
    """A lab of a provider that has no pulled images."""


@dataclass
class Deployer:
    spec: ClusterSpec


@dataclass
class Standing:
    """As much of a cluster as is asked here. saved: the releases it was saved with."""

    spec: ClusterSpec
    hosts: Mapping[str, Host]
    lab: Lab | Mute = field(default_factory=Lab)
    patience: float = 1.0
    provider_name: str = "container"
    saved: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.deployer = Deployer(self.spec)

    def save(self) -> None:
        assert self.deployer.spec == self.spec
        self.saved.append(self.spec.release)


def standing(*says: str, image: str | None = REFERENCE) -> Standing:
    groups = [(arch, 1) for arch in Arch]
    spec = build_spec(groups, setup=CephSetup(UNKNOWN_RELEASE, image))
    return Standing(spec, {n.name: Host(n.name, n.arch, said) for n, said in zip(spec.nodes, says, strict=True)})


def images(folder: Path) -> dict[Arch, Image]:
    return {arch: pulled_image(UNKNOWN_RELEASE, arch, REFERENCE, folder) for arch in Arch}


def test_the_release_is_what_the_nodes_say_whatever_the_name(tmp_path: Path) -> None:
    cluster = standing(SQUID, SQUID)
    pulled = identified(cast("OwnCluster", cluster), images(tmp_path))
    assert cluster.saved == ["squid"]
    facts = image_facts(pulled[Arch.AARCH64])
    assert (facts["release"], facts["ceph_version"], facts["reference"]) == ("squid", "19.2.1", REFERENCE)
    assert (facts["id"], facts["digests"]) == ("sha256:aarch64", [DIGEST])


def test_demands_are_filed_under_what_was_pulled_and_not_under_its_name(tmp_path: Path) -> None:
    cluster, named = standing(SQUID, SQUID), images(tmp_path)
    key = identified(cast("OwnCluster", cluster), named)[Arch.AARCH64].identity
    assert key == "aarch64" != named[Arch.AARCH64].identity
    assert cluster.spec.release == "squid"


def test_what_stands_tells_ids_and_digests() -> None:
    assert described(cast("OwnCluster", standing(SQUID, SQUID))) == {
        "reference": REFERENCE,
        "ids": {"x86_64": "sha256:x86_64", "aarch64": "sha256:aarch64"},
        "digests": [DIGEST],
    }


def test_an_image_of_ours_is_left_alone(tmp_path: Path) -> None:
    cluster = standing("", "", image=None)
    ours = {arch: Image("reef", arch, "a" * 64, tmp_path) for arch in Arch}
    assert identified(cast("OwnCluster", cluster), ours) is ours
    assert described(cast("OwnCluster", cluster)) is None
    assert cluster.saved == []
    assert "id" not in image_facts(ours[Arch.X86_64])


def test_one_name_for_two_releases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match="mixes releases") as error:
        identified(cast("OwnCluster", standing(SQUID, REEF)), images(tmp_path))
    assert "x86_64: squid 19.2.1\naarch64: reef 18.2.7" in error.value.detail


def test_a_program_that_says_something_else_is_shown(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match=r"the Ceph version of .* is unknown") as error:
        identified(cast("OwnCluster", standing("ceph of my own", SQUID)), images(tmp_path))
    assert "ceph of my own" in error.value.detail


def test_a_provider_that_cannot_tell_is_no_source_of_truth() -> None:
    cluster = standing(SQUID, SQUID)
    cluster.lab = Mute()
    with pytest.raises(LabBroken, match="cannot tell the id of a pulled image"):
        described(cast("OwnCluster", cluster))
