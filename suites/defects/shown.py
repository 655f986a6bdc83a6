"""Defects that a small program shows at once. programs/NAME.sh runs on a host as a developer of Ceph would run it."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import run
from cephlab.lab.ceph import conf
from cephlab.lab.report.defects import SUITE, Defect, read_defects
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.mds import MDS
from cephlab.suites.expected import HEALTH_TOLD

LIST = Path(__file__).with_name("known.toml")
PROGRAMS = LIST.with_name("programs")
KNOWN = {defect.name: defect for defect in read_defects(LIST)}

PROGRAM_S = 120.0
FILE_SYSTEM = {
    **HEALTH_TOLD,  # the file system is offline until its metadata server has started
    r"error registering admin socket command: \(17\) File exists": (
        "Several modules of the manager mount the file system and register the same commands."
    ),
}
ALONE = Topology(native=1, foreign=0)
"""What most programs need: a cluster of one OSD, or only the programs of its image."""
WITH_FILES = replace(ALONE, services=(("n0", (MDS.kind,)),))
NEEDED = {name: WITH_FILES for name in KNOWN if name.startswith("libcephfs-")}
"""Name of a defect -> the topology that its program needs instead."""
LOGGED = {
    **dict.fromkeys(NEEDED, FILE_SYSTEM),
    "rados-lock-expired": {
        r"method lock\.get_info tried to update object but is not marked WR": "This is the defect, as the OSD tells it."
    },
}
"""Name of a defect -> the log lines that its program causes."""

BLIND = "its programs cannot show that defect (suites/defects/known.toml)"
SEES = ("known_defect", "defect_try")
"""The events that a run must have recorded for a defect."""
_VERSION = re.compile(r"ceph version (\d+\.\d+\.\d+)")
_SHARED = re.compile(r"^# shellcheck source=suites/defects/programs/(shared/[a-z-]+\.sh)\nsource .+$", re.MULTILINE)
_SAID = re.compile(r"^(seen|not seen): (.+)$")


def show(stage: Stage, defect: Defect) -> None:
    """Run the program of a defect once, and record its answer."""
    meet(stage, defect)
    host = stage.cluster.client.host
    program = host.directory / f"{defect.name}.sh"
    host.push(program_of(defect).encode(), program)
    env = {"CEPH_CONF": str(conf.conf_path(host))}
    argv = host.interactive(["bash", str(program)], env=env, terminal=False)
    ended = run(argv, timeout_s=PROGRAM_S * stage.cluster.patience, check=False)
    host.remove(program)
    last = (ended.stdout.strip().splitlines() or [""])[-1]
    match = _SAID.match(last)
    if ended.code == 0 and match:
        tried(stage, seen=match[1] == "seen", evidence=match[2])
    else:
        why = (ended.stderr.strip().splitlines() or ["it printed no error"])[-1]
        tried(stage, seen=None, evidence=f"{program.name} ended with status {ended.code}: {why}")


def program_of(defect: Defect) -> str:
    """The text of a defect's program, including the code that it shares with others: one file for a Ceph developer."""
    text = (PROGRAMS / f"{defect.name}.sh").read_text()
    return _SHARED.sub(lambda match: (PROGRAMS / match[1]).read_text().partition("\n")[2].rstrip(), text)


def meet(stage: Stage, defect: Defect) -> None:
    """Record Ceph's version, and what is known about the defect there, for the check and for a report of the run."""
    build = str(stage.cluster.client.mon("version")["version"])
    match = _VERSION.match(build)
    if match is None:
        raise LabBroken("cannot parse the version that the monitors report", build)
    expected, listed = defect.expected(match[1])
    described = defect.model_dump(include={"title", "text", "command", "mend", "tracker", "seen", "of"})
    program = program_of(defect) if defect.program else ""
    known = {"version": match[1], "build": build, "expected": expected, "listed": listed, "program": program}
    stage.recorder.record("known_defect", **described, **known)


def tried(stage: Stage, *, seen: bool | None, evidence: str) -> None:
    """Record one try. seen: None if it could not tell."""
    stage.recorder.record("defect_try", seen=seen, said=evidence)


def goal_of(defect: Defect) -> str:
    """The goal of a defect's scenario, with what tells it from the others first."""
    return f"{defect.title.rstrip('.')}: exactly if the list of known defects says so."


def scenario(defect: Defect) -> Scenario:
    return Scenario(
        name=f"{SUITE}.{defect.name}",
        goal=goal_of(defect),
        method=f"Runs programs/{defect.name}.sh, which says whether it saw the defect. Known in "
        f"{', '.join(defect.there)}" + (f", not in {', '.join(defect.gone)}." if defect.gone else "."),
        run=partial(show, defect=defect),
        check="defect",
        topology=NEEDED.get(defect.name, ALONE),
        expects=LOGGED.get(defect.name, {}),
        sees=SEES,
        only_releases=dict.fromkeys(defect.releases, BLIND),
    )


SCENARIOS = tuple(scenario(defect) for defect in KNOWN.values() if defect.program and defect.scenario)
