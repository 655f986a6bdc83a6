"""docs/adding.md by what it says: one new file, one place elsewhere, and what is added is picked up everywhere."""

import json
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import LabError
from cephlab.lab.base.process import run
from cephlab.lab.checks import Outcome
from tests.code_tree import PACKAGES, ROOT
from tests.fake_stage import verdict_of

PAGE = (ROOT / "docs/adding.md").read_text()
SHOWN_SCENARIO = dedent(PAGE.split("```python\n")[1].split("```")[0])
"""The scenario that the page shows."""


@dataclass(frozen=True)
class Addition:
    """what: its row of the page. files: new ones, by path. changes: of the one file elsewhere: old text -> new text.

    seen: Python that fails where what was added is not picked up.
    """

    what: str
    seen: str
    place: str = ""
    files: dict[str, str] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=dict)


RELEASE = '[releases.squid]\nsuite = "forky"\narchs = ["x86_64", "aarch64"]\n\n[releases.pacific]'
ROLES = '[role_sets.demo]\npackages = ["hello"]\nprograms = ["hello"]\n\n[role_sets.database]'
CHECK = '''"""Demo."""
from cephlab.lab.checks.verdict import Outcome, Verdict

def demo(events):
    return Verdict(Outcome.INCONCLUSIVE, "nothing")
'''
FAULT = '''"""Demo."""
from typing import ClassVar
from cephlab.lab.faults.daemons import KillDaemon

class Demo(KillDaemon):
    name: ClassVar[str] = "demo"
'''
SERVICE = '''"""Demo."""
from cephlab.lab.services.service import Service

DEMO = Service("demo", program="sleep", role_set="database")
'''
PROVIDER = '''"""Demo."""
from cephlab.lab.providers.local import LocalProvider

class DemoProvider(LocalProvider):
    name = "demo"
'''
SCENARIO = '''"""Demo."""
from cephlab.lab.scenario.scenario import Scenario

SCENARIOS = (Scenario("demo.demo", "goal", "method", lambda stage: None),)
'''
SUITE = '''"""Demo."""
from cephlab.suites.demo.demo import SCENARIOS
'''
SUITE_TEST = '''"""Demo."""
from cephlab.suites.demo import SCENARIOS
from cephlab.suites.items import one_item_each

test_scenario = one_item_each(SCENARIOS)
'''
TUNING = """title = "Demo"
paper = "none"

[[settings]]
kind = "sysctl"
key = "vm.swappiness"
value = "1"
source = "nowhere"
"""

ADDITIONS = (
    Addition(
        "a release",
        "from cephlab.lab.images.recipe import read_recipes as r; assert 'squid' in r().releases",
        "lab/images/recipes.toml",
        changes={"[releases.pacific]": RELEASE},
    ),
    Addition(
        "a role set",
        "from cephlab.lab.images.recipe import read_recipes as r; assert 'demo' in r().role_sets",
        "lab/images/recipes.toml",
        changes={"[role_sets.database]": ROLES},
    ),
    Addition(
        "a check",
        "from cephlab.lab.checks import CHECKS; assert CHECKS['demo'](()).reason == 'nothing'",
        "lab/checks/__init__.py",
        {"lab/checks/demo.py": CHECK},
        {
            "from cephlab.lab.checks.figures": "from cephlab.lab.checks.demo import demo\n"
            "from cephlab.lab.checks.figures",
            "_ALL = (": "_ALL = (demo, ",
        },
    ),
    Addition(
        "a fault",
        "from cephlab.suites.resilience import SCENARIOS as s; assert 'resilience.fault[demo]' in [x.name for x in s]",
        "lab/faults/__init__.py",
        {"lab/faults/demo.py": FAULT},
        {
            "from cephlab.lab.faults.fault": "from cephlab.lab.faults.demo import Demo\nfrom cephlab.lab.faults.fault",
            "    KillDaemon,\n    StopDaemon,\n": "    Demo,\n    KillDaemon,\n    StopDaemon,\n",
        },
    ),
    Addition(
        "a kind of daemon",
        "from cephlab.lab.scenario.topology import Topology as T; from cephlab.lab import services as s;"
        "spec = T(services=(('n0', ('demo',)),)).spec('reef'); s.refuse_unknown(spec);"
        "assert s.role_sets(spec) == ('ceph', 'database')",
        "lab/services/__init__.py",
        {"lab/services/demo.py": SERVICE},
        {
            "from cephlab.lab.services.exporter": "from cephlab.lab.services.demo import DEMO\n"
            "from cephlab.lab.services.exporter",
            "RGW, MDS,": "RGW, DEMO, MDS,",
        },
    ),
    Addition(
        "a provider",
        "from cephlab.lab.providers.select import choose, provider; assert provider('demo').name == 'demo'",
        "lab/providers/select.py",
        {"lab/providers/demo.py": PROVIDER},
        {
            "from cephlab.lab.providers.local": "from cephlab.lab.providers.demo import DemoProvider\n"
            "from cephlab.lab.providers.local",
            '    "local": LocalProvider,': '    "local": LocalProvider,\n    "demo": DemoProvider,',
        },
    ),
    Addition(
        "a scenario",
        "from cephlab.suites.interop import SCENARIOS as s; assert 'interop.osds-up' in [x.name for x in s]",
        "suites/interop/__init__.py",
        {"suites/interop/osds_up.py": SHOWN_SCENARIO},
        {
            "from cephlab.suites.interop import (": "from cephlab.suites.interop import (\n    osds_up,",
            "SCENARIOS = (": "SCENARIOS = (\n    *osds_up.SCENARIOS,",
        },
    ),
    Addition(
        "a suite",
        "from cephlab.fixtures.run import suite_names; assert 'demo' in suite_names()\n"
        "from cephlab.suites.demo import test_demo; assert callable(test_demo.test_scenario)",
        files={
            "suites/demo/__init__.py": SUITE,
            "suites/demo/demo.py": SCENARIO,
            "suites/demo/test_demo.py": SUITE_TEST,
        },
    ),
    Addition(
        "a tuning",
        "from cephlab.tuning.named import names, load; assert 'demo' in names() and load('demo').title == 'Demo'",
        files={"tuning/tunings/demo.toml": TUNING},
    ),
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product to which everything has been added."""
    house = tmp_path_factory.mktemp("house")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in (*PACKAGES, "cephlab"):
        if name != "tests":
            shutil.copytree(ROOT / name, house / name, ignore=ignored, symlinks=True)
    (house / "docs").mkdir()
    for addition in ADDITIONS:
        for path, text in addition.files.items():
            (house / path).parent.mkdir(exist_ok=True)
            (house / path).write_text(text)
        for old, new in addition.changes.items():
            text = (house / addition.place).read_text()
            assert text.count(old) == 1, f"{addition.place}: {old}"
            (house / addition.place).write_text(text.replace(old, new))
    return house


LOOK = """
import json, sys, traceback
import cephlab
said = {"": cephlab.__file__}
for what, seen in json.load(sys.stdin).items():
    try:
        exec(seen, {})
        said[what] = ""
    except Exception:
        said[what] = traceback.format_exc()
json.dump(said, sys.stdout)
"""


@pytest.fixture(scope="module")
def said(house: Path) -> dict[str, str]:
    """What one process with that product says of each addition: nothing where it was picked up."""
    asked = json.dumps({addition.what: addition.seen for addition in ADDITIONS})
    environment = {"PYTHONPATH": str(house), "PATH": "/usr/bin:/bin"}
    done = run([sys.executable, "-c", LOOK], stdin=asked.encode(), cwd=house, env=environment, timeout_s=60)
    answers: dict[str, str] = json.loads(done.stdout)
    assert str(house) in answers[""]
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.what)
def test_what_is_added_by_the_page_is_picked_up(said: dict[str, str], addition: Addition) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {addition.what} |"))
    assert addition.place in row or not addition.place
    assert said[addition.what] == ""


def test_without_the_addition_nothing_is_picked_up() -> None:
    for addition in ADDITIONS:
        with pytest.raises((AssertionError, ImportError, LookupError, LabError)):
            exec(addition.seen, {})


def test_the_page_has_a_row_for_each() -> None:
    rows = {match[1] for match in re.finditer(r"^\| (an? [^|]+?) \|", PAGE, re.MULTILINE)}
    assert {addition.what for addition in ADDITIONS} <= rows


@pytest.mark.parametrize(("up", "outcome"), [((0, 1, 2), Outcome.PASS), ((0, 1), Outcome.FAIL)])
def test_the_scenario_that_the_page_shows_sees_a_lost_osd(up: tuple[int, ...], outcome: Outcome) -> None:
    shown: dict[str, Any] = {"__name__": "shown"}
    exec(SHOWN_SCENARIO, shown)
    dump = {"osds": [{"osd": osd, "up": int(osd in up)} for osd in range(3)]}
    client = SimpleNamespace(mon={"osd dump": dump}.__getitem__)
    cluster = SimpleNamespace(client=client, daemons={}, osd_ids=lambda: [0, 1, 2])
    verdict = verdict_of(shown["SCENARIOS"][0], cluster)
    assert verdict.outcome is outcome, verdict.reason
