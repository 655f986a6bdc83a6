"""Reads the power readings of a kernel. A separate program, since it runs on the hosts; it works with Python 3.7.

Printed as JSON: {at_s, sensors: {chip/label: W}, rapl: {package: [uJ, uJ at which it wraps]}, unread: [sentences]}.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def sensors(root: Path) -> dict[str, float]:
    """`chip/label` -> watts of each power sensor (hwmon, Documentation/hwmon/sysfs-interface.rst).

    power*_average if there is one, else power*_input, both in microwatts. Empty if no chip measures power.
    """
    watts: dict[str, float] = {}
    for chip in sorted(root.glob("class/hwmon/hwmon*")):
        name = text(chip / "name") or chip.name
        for number in sorted({path.name.partition("_")[0] for path in chip.glob("power[0-9]*_*")}):
            value = text(chip / f"{number}_average") or text(chip / f"{number}_input")
            if value:
                watts[f"{name}/{text(chip / f'{number}_label') or number}"] = int(value) / 1e6
    return watts


def rapl(root: Path) -> tuple[dict[str, list[int]], list[str]]:
    """(package -> [its counter, where it wraps], what may not be read) (powercap, Documentation/power/powercap).

    Only whole packages, `intel-rapl:N`, which include their parts, `intel-rapl:N:M`.
    """
    counters: dict[str, list[int]] = {}
    unread: list[str] = []
    for zone in sorted(root.glob("class/powercap/intel-rapl:[0-9]*")):
        if zone.name.count(":") != 1 or not text(zone / "name").startswith("package"):
            continue
        try:
            counters[zone.name] = [int((zone / name).read_text()) for name in ("energy_uj", "max_energy_range_uj")]
        except PermissionError as error:
            unread.append(f"the processor's energy counters may not be read: {error}")
    return counters, unread


def text(path: Path) -> str:
    """The stripped text of a file; empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def main(root: str) -> None:
    """Print the current readings of the tree below `root`."""
    counters, unread = rapl(Path(root))
    reading = {"at_s": time.time(), "sensors": sensors(Path(root)), "rapl": counters, "unread": unread}
    json.dump(reading, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/sys")
