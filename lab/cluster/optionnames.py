"""Refuses ceph.conf options whose name or value an image's own programs cannot read, and suggests the nearest name."""

import re
from collections.abc import Collection, Mapping
from typing import Protocol

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.nearest import did_you_mean
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.local.programs import Programs
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import ClusterSpec

_LIST = ("ceph-conf", "--show-config", "--conf", "/dev/null")
_LIST_S = 60.0
_UNREADABLE = re.compile(r"^parse error setting '(?P<name>\w+)' to '.*?'(?: \((?P<why>.*)\))?$", re.MULTILINE)


class RunCommand(Protocol):
    """As cephlab.lab.base.process.run_command."""

    def __call__(self, command: process.Command, *, timeout_s: float, check: bool = True) -> process.Result: ...


def refuse_wrong_options(spec: ClusterSpec, images: Images, run: RunCommand = process.run_command) -> None:
    """Raise SpecError for an option that the images do not list or whose value they cannot read. Starts no cluster.

    A daemon takes its default instead of such a value, and says so nowhere that a user looks.
    Asks one image: the one of this machine's architecture if there is one. A pulled image has no programs here, so
    options are not checked for it. Options of manager modules (`mgr/balancer/active`) are never in the list.
    """
    names = [name for name in spec.options if "/" not in name]
    built = [image for image in images.values() if image.reference is None]
    if not names or not built:
        return
    image = next((image for image in built if image.arch is host_arch()), built[0])
    known = known_options(image, run)
    for name in names:
        _refuse_unknown(name, known, image.release)
    _refuse_unreadable({name: spec.options[name] for name in names}, image, run)


def known_options(image: Image, run: RunCommand = process.run_command) -> frozenset[str]:
    """Names of all options that an image's own ceph-conf lists."""
    printed = run(Programs(image.root, image.arch).command(_LIST), timeout_s=_LIST_S).stdout
    known = frozenset(line.split(" = ", 1)[0] for line in printed.splitlines() if " = " in line)
    if not known:
        raise LabBroken(f"ceph-conf of the {image.arch} image lists no options", printed[-500:])
    return known


def _refuse_unknown(name: str, known: Collection[str], release: str) -> None:
    if _own_name(name) in known:
        return
    raise SpecError(
        f"{release} has no option {name!r}",
        f"its ceph-conf lists {len(known)} options, and {name} is not among them",
        did_you_mean(name, known, "to list them, run `ceph-conf --show-config` in `cephlab shell`"),
    )


def _refuse_unreadable(options: Mapping[str, str], image: Image, run: RunCommand) -> None:
    options = {_own_name(name): value for name, value in options.items()}
    command = Programs(image.root, image.arch).command(
        (*_LIST, *(f"--{key}={value}" for key, value in options.items()))
    )
    # check=False: an option such as `name` is an argument of ceph-conf itself, which may end with an error.
    bad = _UNREADABLE.search(run(command, timeout_s=_LIST_S, check=False).stderr)
    if bad is not None:
        name, why = bad["name"], bad["why"]
        raise SpecError(
            f"{image.release} cannot read the value of {name}",
            f"got {options[name]!r}" + (f": {why}" if why else ""),
            "choose another value; Ceph would ignore this one and take its default",
        )


def _own_name(name: str) -> str:
    """Ceph's own way to write a name: it treats spaces and dashes as underscores."""
    return re.sub(r"[ -]", "_", name)
