"""Writes a profile as the TOML that people read and edit."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cephlab.tuning.profile import Figure, Profile
from cephlab.tuning.units import Measure

_UNIT = {
    Measure.BYTES: ("GiB", 2.0**30),
    Measure.RATE: ("MB/s", 1e6),
    Measure.TIME: ("us", 1e-6),
    Measure.OPS: ("IOPS", 1.0),
    Measure.SPEED: ("points", 1.0),
    Measure.POWER: ("W", 1.0),
}


def to_toml(profile: Profile) -> str:
    """The file's text. `load_profile` reads an equal profile from it, with figures to three decimals."""
    lines = [f"name = {_text(profile.name)}", f"title = {_text(profile.title)}"]
    if profile.clients_on_nodes:
        lines.append("clients_on_nodes = true")
    if profile.max_backfills != 1:
        lines.append(f"max_backfills = {profile.max_backfills}")
    if profile.pgs:
        lines.append(f"pgs = {profile.pgs}")
    if profile.missing:
        lines += ["missing = [", *(f"  {_text(line)}," for line in profile.missing), "]"]
    lines += ["", "[network]", f"rtt = {_figure(profile.rtt)}", f"mtu_bytes = {profile.mtu_bytes}"]
    if profile.uplink:
        lines.append(f"uplink = {_figure(profile.uplink)}")
    lines += ["", "[threads]", *_plain(profile.threads)]
    for kind, machines in (("nodes", profile.nodes), ("clients", profile.clients)):
        for machine in machines:
            lines += ["", f"[[{kind}]]", *_plain(machine)]
            for disks in machine.disks:
                lines += ["", f"[[{kind}.disks]]", *_plain(disks)]
    return "\n".join(lines) + "\n"


def _plain(thing: object) -> Iterator[str]:
    """One line for each value of a dataclass, except for tables."""
    for key, value in vars(thing).items():
        if isinstance(value, Figure):
            yield f"{key} = {_figure(value)}"
        elif value is not None and not isinstance(value, tuple):
            yield f"{key} = {_text(value) if isinstance(value, str) else value}"


def _figure(figure: Figure) -> str:
    unit, size = _UNIT[figure.kind]
    number = f"{figure.value / size:.3f}".rstrip("0").rstrip(".")
    return f"{{ value = {_text(f'{number} {unit}')}, source = {_text(figure.source)} }}"


def _text(words: str) -> str:
    # A JSON string is a TOML basic string as long as nothing beyond ASCII has to be escaped.
    return json.dumps(str(words), ensure_ascii=False)
