"""Programs inside containers and guests are held against their image: one that differs is named and breaks the lab."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.cluster.inside import require_copies, watched
from cephlab.lab.images.image import SEALED, Image
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability

NODES = frozenset({Capability.OWN_NETWORK})

NOTED = {
    "usr/bin/ceph-osd": "a" * 64,
    "usr/bin/ceph-mon": "b" * 64,
    "usr/bin/python3": "-> python3.13",
    "usr/lib/x86_64-linux-gnu/ceph/libceph-common.so.2": "c" * 64,
    "usr/lib/x86_64-linux-gnu/ceph/erasure-code/libec_isa.so": "d" * 64,
    "usr/lib/x86_64-linux-gnu/ceph/compressor/libceph_lz4.so": SEALED,
    "usr/lib/x86_64-linux-gnu/libc.so.6": "e" * 64,
    "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": "f" * 64,
    "usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.33": "0" * 64,
    "usr/lib/x86_64-linux-gnu/libcurl.so.4.8.0": "1" * 64,
    "usr/lib/python3/dist-packages/rados.cpython-313-x86_64-linux-gnu.so": "2" * 64,
    "usr/lib/python3/dist-packages/ceph_argparse.py": "3" * 64,
    "usr/bin/python3.13": "4" * 64,
    "usr/bin/python3.13-config": "5" * 64,
}


def cluster_of(
    folder: Path, able: frozenset[Capability] = NODES, other: Mapping[str, str] = MappingProxyType({})
) -> Any:
    """One host that runs ceph-osd. other: what its files are, where not as noted; empty for one that is gone."""
    (folder / "contents.json").write_text(json.dumps(NOTED))
    image = Image("reef", Arch.X86_64, "k" * 64, folder / "root")
    sums = {**NOTED, **other}

    def run(argv: list[str], **_how: Any) -> Any:
        paths = [path.removeprefix("/") for path in argv[1:]]
        return SimpleNamespace(stdout="".join(f"{sums[path]}  /{path}\n" for path in paths if sums[path]))

    host = SimpleNamespace(name="n0", arch=Arch.X86_64, root=PurePosixPath("/"), run=run)
    daemon = SimpleNamespace(argv=("ceph-osd", "-i", "0"), host=host)
    made = {"hosts": {"n0": host}, "images": {Arch.X86_64: image}, "daemons": {"osd.0": daemon}}
    return cast("Any", SimpleNamespace(provider=SimpleNamespace(capabilities=lambda: able), patience=1.0, **made))


def test_what_is_looked_at_is_what_runs_and_what_it_loads(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    assert list(watched(cluster.images[Arch.X86_64], {"/usr/bin/ceph-osd"})) == [
        "usr/bin/ceph-osd",
        "usr/lib/x86_64-linux-gnu/ceph/libceph-common.so.2",
        "usr/lib/x86_64-linux-gnu/ceph/erasure-code/libec_isa.so",
        "usr/lib/x86_64-linux-gnu/libc.so.6",
        "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        "usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.33",
        "usr/lib/python3/dist-packages/rados.cpython-313-x86_64-linux-gnu.so",
        "usr/bin/python3.13",
    ]
    assert copied(cluster)


def copied(cluster: Any) -> bool:
    """Whether what is compared is what the image noted."""
    try:
        require_copies(cluster)
    except LabBroken:
        return False
    return True


@pytest.mark.parametrize("program", ["usr/bin/ceph-osd", "usr/bin/python3.13", "usr/lib/x86_64-linux-gnu/libc.so.6"])
@pytest.mark.parametrize(("held", "said"), [("9" * 64, "has changed"), ("", "is missing")])
def test_another_program_breaks_the_lab_by_name(tmp_path: Path, program: str, held: str, said: str) -> None:
    with pytest.raises(LabBroken, match="1 program inside the nodes") as raised:
        require_copies(cluster_of(tmp_path, other={program: held}))
    assert raised.value.detail == f"n0: {program} {said}"


def test_processes_of_this_machine_and_pulled_images_are_not_compared_here(tmp_path: Path) -> None:
    other = {"usr/bin/ceph-osd": "f" * 64}
    assert copied(cluster_of(tmp_path, frozenset(), other))
    pulled = cluster_of(tmp_path, other=other)
    assert not copied(pulled)
    (tmp_path / "contents.json").unlink()
    assert copied(pulled)
