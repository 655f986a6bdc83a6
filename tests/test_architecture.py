"""The shape of the code: import direction, sizes, and the things that only one module may do."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from cephlab.lab.providers.select import PROVIDERS
from tests.code_tree import PACKAGES, ROOT, functions, imports, modules, nodes, package_of, trees

Rule = Callable[[str, ast.Module], Iterator[str]]
"""Path below the repository and its syntax tree -> one line for each place that breaks the rule."""

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6

MAY_IMPORT = {
    "lab": {"lab"},
    "tuning": {"tuning", "lab"},
    "fixtures": {"fixtures", "tuning", "lab"},
    "suites": {"suites", "fixtures", "tuning", "lab"},
    "cli": {"cli", "fixtures", "tuning", "lab"},
    "tests": set(PACKAGES),
}
"""Which packages of ours each package may import."""

LAYERS: tuple[tuple[str, ...], ...] = (
    ("base",),
    ("spec", "history"),
    ("images", "checks"),
    ("providers",),
    ("ceph",),
    ("services",),
    ("cluster",),
    ("blockstack",),
    ("workloads", "faults"),
    ("telemetry", "jobs"),
    ("tunables", "scenario"),
    ("archive",),
    ("report",),
)
"""Inside lab, bottom to top: a room imports rooms of lower layers only."""

LAYER_OF = {part: index for index, parts in enumerate(LAYERS) for part in parts}

PROVIDERS_IMPORT = {
    "local": {"local"},
    "container": {"container", "engine"},
    "lxd": {"lxd", "engine", "guest"},
    "guest": {"guest", "agent"},
    "ssh": {"ssh", "agent"},
    "engine": {"engine"},
    "agent": {"agent"},
}
"""Which folders of lab/providers each of them may import. Virtual machines of LXD's boot as QEMU's guests do."""

OTHER_MEANINGS = {"lab/images/export.py", "suites/krbd/beside.py", "suites/hci/hypervisor/command.py"}
"""Where such a word is the form of an image's file, or a folder of QEMU's."""

PYTEST_USERS = {"fixtures", "suites", "tests"}
PROCESS_STARTERS = {
    "lab/base/process.py",
    "suites/hci/hypervisor/inside.py",
    "lab/providers/agent/inside/programs.py",
    "lab/providers/ssh/remote/start.py",
    "suites/interop/walks/inside/replay.py",
}
"""All but the first run on a host. tests/ may start processes: they run the project's own commands as a user would."""
SLEEPERS = {
    "lab/base/clock.py",
    "suites/hci/hypervisor/inside.py",
    "lab/workloads/load_program.py",
    "lab/providers/agent/inside/__main__.py",
    "lab/providers/ssh/remote/start.py",
    "lab/providers/ssh/remote/sweep.py",
}
"""All but the first run on a host, where nothing of the lab can be imported."""
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
EMPTY_VARIABLES = {"found", "one"}
VERBS = {"made", "said", "told", "took", "ran"}
"""As names of variables they say what was done, and not what it led to."""
MARKERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
PROCESS_CALLS = {"system", "popen", "fork", "posix_spawn", "posix_spawnp"}


def one_way_packages(path: str, tree: ast.Module) -> Iterator[str]:
    """Packages import one way: cli, suites -> fixtures -> tuning -> lab."""
    allowed = MAY_IMPORT[package_of(path)]
    for line, module in imports(tree):
        target = module.split(".")[0]
        if target in PACKAGES and target not in allowed:
            yield f"{path}:{line} imports {module}"
        if module == "(relative)":
            yield f"{path}:{line} imports relatively; write the whole name"


def one_way_layers(path: str, tree: ast.Module) -> Iterator[str]:
    """Inside lab there are rooms, no loose modules, and a room imports from lower layers only."""
    parts = PurePosixPath(path).with_suffix("").parts
    if parts[0] != "lab" or parts == ("lab", "__init__"):
        return
    room = parts[1]
    if room not in LAYER_OF:
        yield f"{path} has no layer: give the room lab/{room} its place in LAYERS"
        return
    for line, module in imports(tree):
        target = module.split(".")[1:2]
        if not module.startswith("lab.") or target[0] == room:
            continue
        if LAYER_OF.get(target[0], len(LAYERS)) >= LAYER_OF[room]:
            yield f"{path}:{line} imports {module}, which is not below it"


def providers_apart(path: str, tree: ast.Module) -> Iterator[str]:
    """A provider imports no other's folder; what several share has a folder of its own."""
    parts = PurePosixPath(path).parts
    if parts[:2] != ("lab", "providers") or len(parts) < 4:
        return
    for line, module in imports(tree):
        target = module.split(".")[2:3]
        if module.startswith("lab.providers.") and target[0] in set(PROVIDERS_IMPORT) - PROVIDERS_IMPORT[parts[2]]:
            yield f"{path}:{line} imports {module}, which is another provider's"


def providers_by_what_they_can_do(path: str, tree: ast.Module) -> Iterator[str]:
    """Outside of lab/providers nobody knows a provider by its name: each says itself what it can do, and is called."""
    if path.startswith("lab/providers/") or package_of(path) == "tests" or path in OTHER_MEANINGS:
        return
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and node.value in PROVIDERS:
            yield f"{path}:{node.lineno} names the provider {node.value!r}"


def one_import_name(path: str, tree: ast.Module) -> Iterator[str]:
    """Everything is imported as cephlab.…: another project may have folders called lab or fixtures."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            if name.split(".")[0] in set(PACKAGES) - {"tests"}:
                yield f"{path}:{node.lineno} imports {name}; write cephlab.{name}"


def pytest_only_in_suites(path: str, tree: ast.Module) -> Iterator[str]:
    """Only fixtures, suites and tests know pytest."""
    for line, module in imports(tree):
        if module.split(".")[0] in {"pytest", "_pytest", "pluggy"} and package_of(path) not in PYTEST_USERS:
            yield f"{path}:{line} imports {module}"


def one_process_starter(path: str, tree: ast.Module) -> Iterator[str]:
    """Only lab/base/process.py starts processes."""
    if path in PROCESS_STARTERS or package_of(path) == "tests":
        return
    for line, module in imports(tree):
        # Its connections carry objects over a socket, and start nothing.
        if module.startswith("multiprocessing.connection."):
            continue
        if module.split(".")[0] in {"subprocess", "pty", "multiprocessing"}:
            yield f"{path}:{line} imports {module}"
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and _is_name(node.value, "os") and node.attr in PROCESS_CALLS:
            yield f"{path}:{node.lineno} calls os.{node.attr}"


def one_sleeper(path: str, tree: ast.Module) -> Iterator[str]:
    """Only lab/base/clock.py sleeps."""
    if path in SLEEPERS or package_of(path) == "tests":
        return
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and _is_name(node.value, "time") and node.attr == "sleep":
            yield f"{path}:{node.lineno} calls time.sleep"
    for line, module in imports(tree):
        if module == "time.sleep":
            yield f"{path}:{line} imports time.sleep"


def module_docstring(path: str, tree: ast.Module) -> Iterator[str]:
    """Every module says what it is for."""
    if not ast.get_docstring(tree):
        yield f"{path}:1 has no docstring"


def small_files(path: str, tree: ast.Module) -> Iterator[str]:
    """A file fits into one's head."""
    last = max((node.end_lineno or 0 for node in tree.body), default=0)
    if last > MAX_FILE_LINES:
        yield f"{path} has {last} lines, at most {MAX_FILE_LINES}"


def small_functions(path: str, tree: ast.Module) -> Iterator[str]:
    """A function fits on a screen."""
    for node in functions(tree):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield f"{path}:{node.lineno} {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"


def few_parameters(path: str, tree: ast.Module) -> Iterator[str]:
    """A function with many parameters has too many things to do, or they belong together. Tests count unnamed ones."""
    for node in functions(tree):
        named = [] if package_of(path) == "tests" else node.args.kwonlyargs
        arguments = [*node.args.posonlyargs, *node.args.args, *named]
        count = len([argument for argument in arguments if argument.arg not in {"self", "cls"}])
        if count > MAX_PARAMETERS:
            yield f"{path}:{node.lineno} {node.name} has {count} parameters, at most {MAX_PARAMETERS}: group them"


def names_say_the_thing(path: str, tree: ast.Module) -> Iterator[str]:
    """A name says the thing, for example `parity` or `stuck_osds`."""
    empty = EMPTY_VARIABLES if path.startswith("tests/") else EMPTY_VARIABLES | VERBS
    for node in nodes(tree):
        if isinstance(node, ast.arg) and node.arg in empty:
            yield f"{path}:{node.lineno} {node.arg} says nothing about what it holds"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in empty:
            yield f"{path}:{node.lineno} {node.id} says nothing about what it holds"


def no_blind_except(path: str, tree: ast.Module) -> Iterator[str]:
    """An error that nobody expected is never swallowed; catching all is for cleaning up and raising on."""
    for node in nodes(tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        blind = any(kind is None or _is_name(kind, "Exception") or _is_name(kind, "BaseException") for kind in caught)
        raises_on = any(isinstance(statement, ast.Raise) and statement.exc is None for statement in node.body)
        if blind and not raises_on:
            yield f"{path}:{node.lineno} catches everything"


def no_async(path: str, tree: ast.Module) -> Iterator[str]:
    """Threads where something has to run beside something; nothing is async."""
    for node in nodes(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncWith | ast.AsyncFor | ast.Await):
            yield f"{path}:{node.lineno} is async"


def no_mixins(path: str, tree: ast.Module) -> Iterator[str]:
    """Behaviour is composed, not mixed in."""
    for node in nodes(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Mixin"):
            yield f"{path}:{node.lineno} {node.name} is a mixin"


def _is_name(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


RULES: tuple[Rule, ...] = (
    one_way_packages,
    one_way_layers,
    providers_apart,
    providers_by_what_they_can_do,
    one_import_name,
    pytest_only_in_suites,
    one_process_starter,
    one_sleeper,
    module_docstring,
    small_files,
    small_functions,
    few_parameters,
    names_say_the_thing,
    no_blind_except,
    no_async,
    no_mixins,
)


def bad_name(path: str) -> bool:
    """Whether a file or a folder of the path has a name that says nothing."""
    return any(part.split(".")[0].strip("_") in FORBIDDEN_NAMES for part in PurePosixPath(path).parts)


def texts() -> list[Path]:
    """What people read: code, scripts and prose."""
    suffixes = {".py", ".md", ".toml", ".txt", ".ini", ".yml", ".c", ".h", ".j2", ".json"}
    folders = [ROOT / name for name in (*PACKAGES, "ci", "docs", ".ci", ".github")]
    nested = [path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes or not path.suffix]
    return sorted(path for path in (*nested, *ROOT.glob("*.*")) if path.is_file() and "__pycache__" not in path.parts)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(rule: Rule) -> None:
    parsed = trees()
    assert len(parsed) > 10
    broken = [line for path, tree in parsed.items() for line in rule(path, tree)]
    assert not broken, f"{rule.__doc__}\n" + "\n".join(broken)


def test_names_say_something() -> None:
    assert [path for path in modules() if bad_name(path)] == []


def test_nothing_is_left_for_later() -> None:
    left = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MARKERS.search(line)
    ]
    assert left == []


LONG_FUNCTION = "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES
LONG_FILE = "x = 1\n" * (MAX_FILE_LINES + 1)


BAD_SOURCES: tuple[tuple[Rule, str, str], ...] = (
    (one_way_packages, "lab/spec/clusterspec.py", "import cephlab.tuning.model"),
    (one_way_packages, "lab/spec/clusterspec.py", "from cephlab.fixtures import plugin"),
    (one_way_packages, "tuning/model.py", "from cephlab.fixtures.options import x"),
    (one_way_packages, "fixtures/cluster.py", "import cephlab.suites.interop"),
    (one_way_packages, "lab/spec/clusterspec.py", "from . import arch"),
    (one_way_packages, "suites/interop/x.py", "from cephlab.cli import main"),
    (one_way_layers, "lab/providers/container/lab.py", "from cephlab.lab.ceph.client import Ceph"),
    (one_way_layers, "lab/providers/container/lab.py", "from cephlab.lab import ceph"),
    (one_way_layers, "lab/base/errors.py", "def f():\n    import cephlab.lab.providers.host"),
    (one_way_layers, "lab/checks/scrub.py", "from cephlab.lab.cluster.cluster import Cluster"),
    (one_way_layers, "lab/novelty.py", "x = 1"),
    (one_way_layers, "lab/spec/arch.py", "from cephlab.lab.history.history import Event"),
    (providers_apart, "lab/providers/ssh/host.py", "from cephlab.lab.providers.guest.host import GuestHost"),
    (providers_apart, "lab/providers/agent/host.py", "from cephlab.lab.providers.guest import boot"),
    (providers_by_what_they_can_do, "lab/telemetry/x.py", "fit = name in ('local', 'container')"),
    (one_import_name, "lab/spec/arch.py", "from lab.base import errors"),
    (one_import_name, "tests/x.py", "import suites.block"),
    (pytest_only_in_suites, "lab/spec/clusterspec.py", "import pytest"),
    (pytest_only_in_suites, "cli/gate.py", "from pytest import main"),
    (one_process_starter, "lab/cluster/cluster.py", "import subprocess"),
    (one_process_starter, "cli/main.py", "from subprocess import run"),
    (one_process_starter, "lab/cluster/cluster.py", "import os\nos.system('true')"),
    (one_sleeper, "lab/cluster/cluster.py", "import time\ntime.sleep(1)"),
    (one_sleeper, "suites/interop/x.py", "from time import sleep"),
    (module_docstring, "lab/spec/clusterspec.py", "x = 1"),
    (small_files, "lab/spec/clusterspec.py", LONG_FILE),
    (small_functions, "lab/spec/clusterspec.py", LONG_FUNCTION),
    (few_parameters, "lab/spec/clusterspec.py", "def f(a, b, c, d, e, f, g): ..."),
    (few_parameters, "lab/providers/host.py", "def run(self, a, b, *, c, d, e, f, g=1): ..."),
    (few_parameters, "tests/x.py", "def f(a, b, c, d, e, f, g): ..."),
    (names_say_the_thing, "lab/ceph/x.py", "found = f()"),
    (names_say_the_thing, "lab/ceph/x.py", "made = f()"),
    (names_say_the_thing, "suites/interop/x.py", "g(lambda one: one.name)"),
    (no_blind_except, "lab/spec/clusterspec.py", "try:\n    f()\nexcept Exception:\n    pass"),
    (no_blind_except, "lab/spec/clusterspec.py", "try:\n    f()\nexcept (OSError, BaseException):\n    g()"),
    (no_blind_except, "lab/spec/clusterspec.py", "try:\n    f()\nexcept:\n    g()"),
    (no_async, "lab/spec/clusterspec.py", "async def f(): ..."),
    (no_mixins, "lab/spec/clusterspec.py", "class RunMixin: ..."),
)


@pytest.mark.parametrize(("rule", "path", "source"), BAD_SOURCES)
def test_each_rule_bites(rule: Rule, path: str, source: str) -> None:
    assert list(rule(path, ast.parse(source))) != []


def test_every_rule_has_a_bad_source() -> None:
    assert {rule for rule, _, _ in BAD_SOURCES} == set(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_rule_bites_good_code(rule: Rule) -> None:
    good = '''"""A module."""
from cephlab.lab.base.errors import LabError

def f(self, a, b, c, d, e, *, g=1):
    try:
        return a
    except BaseException:
        raise
'''
    assert list(rule("lab/cluster/cluster.py", ast.parse(good))) == []


@pytest.mark.parametrize("path", ["lab/utils/x.py", "lab/_helpers.py", "tests/common.py"])
def test_empty_names_are_seen(path: str) -> None:
    assert bad_name(path)
    assert not bad_name("lab/history/history.py")


def test_markers_are_seen() -> None:
    assert MARKERS.search("# TO" + "DO: later")
    assert not MARKERS.search("mktemp -d dir.XXXX" + "XX")
