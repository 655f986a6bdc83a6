"""Settings are checked against what an image's own programs list."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.process import Command, Result
from cephlab.lab.cluster.optionnames import refuse_wrong_options
from cephlab.lab.images.image import Image
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.layout import build_spec

LISTED = b"osd_memory_target = 4294967296\nosd_pool_default_size = 3\nfsid = \n"


class Programs:
    """In place of the image's ceph-conf. asked: the settings of each call; complaint: what it says about any."""

    def __init__(self, printed: bytes = LISTED, complaint: bytes = b"") -> None:
        self.printed = printed
        self.complaint = complaint
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, command: Command, *, timeout_s: float, check: bool = True) -> Result:
        assert any(part.endswith("ceph-conf") for part in command.argv)
        place = command.argv.index("--show-config")
        assert command.argv[place : place + 3] == ("--show-config", "--conf", "/dev/null")
        settings = command.argv[place + 3 :]
        self.asked.append(settings)
        return Result(command.argv, 0, self.printed, self.complaint if settings else b"")


@pytest.fixture
def image(tmp_path: Path) -> Image:
    program = tmp_path / "root" / "usr" / "bin" / "ceph-conf"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    shell = tmp_path / "root" / "bin" / "sh"
    shell.parent.mkdir()
    shell.write_bytes(Path("/bin/sh").read_bytes())
    return Image("reef", host_arch(), "1" * 64, tmp_path / "root")


def refuse(image: Image, options: dict[str, str], programs: Any) -> None:
    spec = replace(build_spec([(host_arch(), 1)]), options=options)
    refuse_wrong_options(spec, {host_arch(): image}, programs)


@pytest.mark.parametrize("name", ["osd_memory_target", "osd memory target", "osd-memory-target", "mgr/balancer/active"])
def test_what_the_image_lists_is_taken(image: Image, name: str) -> None:
    programs = Programs()
    refuse(image, {name: "1"}, programs)
    asked = [] if name.startswith("mgr/") else [(), ("--osd_memory_target=1",)]
    assert programs.asked == asked, "a name of a manager's module is in no list"


def test_a_name_with_a_typing_error_is_refused_with_the_nearest(image: Image) -> None:
    with pytest.raises(SpecError, match="reef has no option 'osd_memory_targt'") as caught:
        refuse(image, {"osd_pool_default_size": "1", "osd_memory_targt": "1"}, Programs())
    assert caught.value.hint == "did you mean osd_memory_target?"


def test_a_name_like_none_gets_the_way_to_the_list(image: Image) -> None:
    with pytest.raises(SpecError) as caught:
        refuse(image, {"colour": "green"}, Programs())
    assert "ceph-conf --show-config" in caught.value.hint


def test_nothing_is_asked_without_settings_and_of_pulled_images(image: Image) -> None:
    programs = Programs()
    refuse(image, {}, programs)
    refuse(replace(image, reference="example/ceph:1"), {"colour": "green"}, programs)
    assert programs.asked == []


def test_a_program_that_lists_nothing_is_trouble_of_the_lab(image: Image) -> None:
    with pytest.raises(LabBroken, match="lists no options"):
        refuse(image, {"osd_memory_target": "1"}, Programs(b"unable to parse\n"))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"parse error setting 'osd_memory_target' to '4GiB' (strict_iecstrtoll: illegal prefix)\n\n", "4GiB': strict"),
        (b"parse error setting 'osd_memory_target' to ''\n", "got '4GiB'"),
    ],
)
def test_a_value_that_ceph_would_ignore_is_refused(image: Image, said: bytes, why: str) -> None:
    with pytest.raises(SpecError, match="reef cannot read the value of osd_memory_target") as caught:
        refuse(image, {"osd memory target": "4GiB"}, Programs(complaint=said))
    assert why in caught.value.detail
    assert "take its default" in caught.value.hint


def test_another_complaint_of_the_program_refuses_no_value(image: Image) -> None:
    refuse(image, {"osd_memory_target": "4G"}, Programs(complaint=b"error parsing 'foo': expected TYPE.ID\n"))
