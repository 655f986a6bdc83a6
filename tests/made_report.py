"""An archive whose report shows everything that a report can show: endings, faults, charts, requirements, a matrix."""

import random
from pathlib import Path
from typing import Any

from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record
from cephlab.lab.history.history import History
from cephlab.lab.history.operations import Act, Ended, Operation, pack
from cephlab.lab.report.page import render_report
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.report.wanted import Shown, record_requirement
from tests.fake_clock import VirtualClock
from tests.lab.archive.test_archive import MANIFEST, add

FAILED, SOAK, FAULT = "interop.parity", "resilience.soak", "kill-daemon of osd.1"
WANTED = "profile.small-reads"

HOSTS: dict[str, Any] = {"n0": {"arch": "x86_64", "emulated": False}, "n2": {"arch": "aarch64", "emulated": True}}
CLUSTER: dict[str, Any] = {
    "name": "c1",
    "provider": "local",
    "why": "local (the cheapest provider that can do this)",
    "spec": {},
    "hosts": HOSTS,
    "daemons": {"mon.n0": "n0", "osd.2": "n2"},
    "patience": 11.5,
    "raise_s": 18.25,
    "images": {},
}


def load(seconds: int = 60) -> list[Operation]:
    """Operations of two clients, slower while a daemon is away."""
    drawn = random.Random(25)
    made = []
    for number in range(seconds * 40):
        began = 100 + number / 40
        slow = 12 if 120 <= began < 135 else 1
        took = drawn.expovariate(1 / 0.004) * slow
        act = Act.READ if number % 3 else Act.WRITE
        made.append(Operation("l", f"c{number % 2}", 0, act, number, 1, began, began + took, Ended.OK))
    return made


def make_archive(directory: Path) -> Path:
    """The archive, its report included."""
    writer, clock = ArchiveWriter(directory, {**MANIFEST, "clusters": [CLUSTER]}), VirtualClock()
    writer.history = History(directory / "history.jsonl", clock)
    clients = ("x86_64", "aarch64")
    for client in clients:
        for primary in clients:
            name = f"interop.objects[client={client},primary={primary}]"
            add(writer, _record(name, Ending.PASS, "42 observations hold"))
    add(writer, _record(FAILED, Ending.FAIL, "sha256 differs"))
    add(writer, _record("dmcache.writeback", Ending.SKIP, "no provider here has own-kernel"))
    add(writer, _record("stress.readable", Ending.INCONCLUSIVE, "less load than was asked for"))
    for client in ("c0", "c1"):
        for data in pack([operation for operation in load() if operation.client == client]):
            writer.history.record(SOAK, "operations", data)
    recorder = writer.history.recorder(SOAK)
    for at_s, phase in ((120.0, "broken"), (135.0, "healed")):
        clock.now = at_s
        recorder.record("fault", fault="kill-daemon", target="osd.1", nodes=["n0"], phase=phase)
    clock.now = 150.0
    recorder.step("handed back")
    recorder.figure("slowest write", 0.25, "s", interval=(0.2, 0.3))
    lines = [Line("per second", "measured", ((1, 10), (2, 18))), Line("per second", "predicted", ((1, 11), (2, 20)))]
    record_series(recorder, "against depth", lines, axis="in flight", marks={"knee": 2.0})
    add(writer, _record(SOAK, Ending.PASS, "nothing acknowledged was lost"))
    wanted = writer.history.recorder(WANTED)
    row = ("operations a second", "at least 200,000", "210,000 to 260,000", "", "CPU of the OSDs")
    shown = Shown("4 KiB reads", "storage-3n", rows=[row], enough=["nodes.count=4"], demands="shipped")
    record_requirement(wanted, shown)
    add(writer, _record(WANTED, Ending.PASS, "the whole interval keeps the limit"))
    writer.seal(render_report)
    return directory


def _record(name: str, ending: Ending, reason: str) -> Record:
    return Record(
        name, name.partition(".")[0], ending, reason, goal="Objects are the same.", method="Write, read.", seconds=6.5
    )
