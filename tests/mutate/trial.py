"""Tests run against mutants, each in a process of its own, forked where everything is loaded already."""

import ast
import gc
import os
import pickle
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.machinery import SourceFileLoader
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMORY_BYTES = 6 << 30
"""A mutant that allocates without end meets its own limit before the machine's."""
SLOWER = 5.0
"""A mutant may take this many times as long as the code as it is, and SPARE_S more, before it counts as endless."""
SPARE_S = 10.0
TIMED_OUT = -signal.SIGKILL
LOADED = "loaded"
"""File with the modules of the project that the tests load, and their sources."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change. place: the function or class that it is in; was, now: the lines that differ.

    within: in the body of a function, so that functions which exist already can take it over.
    """

    module: str
    place: str
    was: str
    now: str
    source: str
    within: bool = False

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.module, self.place, self.was, self.now)

    def __str__(self) -> str:
        return f"{self.module}, {self.place or 'outside of functions'}: {self.was}  ->  {self.now}"


@dataclass(frozen=True)
class Tried:
    """code: pytest's exit code, 0 where no test noticed anything."""

    mutant: Mutant
    code: int
    took_s: float


@dataclass(frozen=True)
class _Running:
    mutant: Mutant
    pid: int
    began_s: float


def tried(module: str, mutants: Sequence[Mutant], tests: Sequence[str], jobs: int) -> list[Tried]:
    """Each mutant with how its tests ended; one that runs without end counts as noticed.

    SystemExit when the tests do not pass on the code as it is.
    """
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        unchanged = Mutant(module, "", "", "", (ROOT / module).read_text())
        pace = _Pace(jobs, _plain_s(unchanged, tests, folder) * SLOWER + SPARE_S)
        within = [mutant for mutant in mutants if mutant.within and _fits(unchanged, mutant)]
        others = [mutant for mutant in mutants if mutant not in within]
        return [
            *_told(module, folder, lambda: _swapped(module, within, tests, pace, folder)),
            *_told(module, folder, lambda: _loaded_anew(unchanged, others, tests, pace, folder)),
        ]


def _plain_s(unchanged: Mutant, tests: Sequence[str], folder: str) -> float:
    """How long the tests take on the code as it is."""
    (plain,) = _supervised([unchanged], lambda mutant: _fork(lambda: _whole(tests, mutant, folder)), 1, 600.0)
    if plain.code:
        output = Path(folder, "output").read_text(errors="replace")
        raise SystemExit(f"{unchanged.module}: its tests do not pass on the code as it is\n{output[-4000:]}")
    return plain.took_s


@dataclass(frozen=True)
class _Pace:
    """jobs: mutants at once; limit_s: for each."""

    jobs: int
    limit_s: float


def _told(module: str, folder: str, run: Callable[[], list[Tried]]) -> list[Tried]:
    """What a fork tells, which may load what this process must not: its next module has other mutants."""
    results = Path(folder, "results")
    results.unlink(missing_ok=True)
    os.waitpid(_fork(lambda: results.write_bytes(pickle.dumps(run())) and 0), 0)
    if not results.exists():
        raise SystemExit(f"{module}: {Path(folder, 'output').read_text(errors='replace')[-4000:]}")
    told: list[Tried] = pickle.loads(results.read_bytes())
    return told


def _swapped(module: str, mutants: Sequence[Mutant], tests: Sequence[str], pace: _Pace, folder: str) -> list[Tried]:
    swapping = _Swapping(ROOT / module, mutants, pace)
    _pytest(tests, folder, swapping)
    return swapping.trials


def _loaded_anew(
    unchanged: Mutant, mutants: Sequence[Mutant], tests: Sequence[str], pace: _Pace, folder: str
) -> list[Tried]:
    """What does not load the module itself is loaded once, and not anew for each mutant."""
    sources = dict(line.split(maxsplit=1) for line in Path(folder, LOADED).read_text().splitlines())
    for name in apart_from(ROOT / unchanged.module, {name: Path(path) for name, path in sources.items()}):
        import_module(name)
    _plain_s(unchanged, tests, folder)  # else tests that cannot run now would seem to notice every mutant
    return list(
        _supervised(mutants, lambda mutant: _fork(lambda: _whole(tests, mutant, folder)), pace.jobs, pace.limit_s)
    )


def apart_from(changed: Path, sources: Mapping[str, Path]) -> list[str]:
    """The modules that load neither this file nor one that does. sources: of all modules by their names."""
    imported = {name: _imported(name, path) & sources.keys() for name, path in sources.items()}
    tainted = {name for name, path in sources.items() if path.resolve() == changed}
    while more := {name for name, others in imported.items() if others & tainted} - tainted:
        tainted |= more
    return [name for name in sources if name not in tainted]


def _imported(name: str, path: Path) -> set[str]:
    """What loading a module may load: also the packages around each, and what `from a import b` names."""
    names = {name.rpartition(".")[0]}
    for node in _outside_of_functions(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names]
    return {".".join(of[:count]) for of in parts for count in range(1, len(of) + 1)}


def _outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.FunctionDef):
        for child in ast.iter_child_nodes(node):
            yield from _outside_of_functions(child)


@dataclass
class _Swapping:
    """A pytest plugin: collects the tests once, and runs them for each mutant in a fork with changed functions.

    What a test module works out while it is collected, in a parametrize, was worked out by the code as it is.
    """

    path: Path
    mutants: Sequence[Mutant]
    pace: _Pace
    trials: list[Tried] = field(default_factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        functions = _functions(self.path)

        def start(mutant: Mutant) -> int:
            return _fork(lambda: _items(session, functions, mutant))

        self.trials.extend(_supervised(self.mutants, start, self.pace.jobs, self.pace.limit_s))
        return True


def _supervised(
    mutants: Iterable[Mutant], start: Callable[[Mutant], int], jobs: int, limit_s: float
) -> Iterator[Tried]:
    waiting = iter(mutants)
    running: dict[int, _Running] = {}
    poll = select.poll()
    while True:
        while len(running) < jobs and (mutant := next(waiting, None)) is not None:
            pid = start(mutant)
            watched = os.pidfd_open(pid)
            poll.register(watched, select.POLLIN)
            running[watched] = _Running(mutant, pid, time.monotonic())
        if not running:
            return
        poll.poll(500)
        for watched, trial in list(running.items()):
            took = time.monotonic() - trial.began_s
            ended, status = os.waitpid(trial.pid, os.WNOHANG)
            if not ended and took < limit_s:
                continue
            with suppress(ProcessLookupError):
                os.killpg(trial.pid, signal.SIGKILL)
            if not ended:
                _, status = os.waitpid(trial.pid, 0)
            poll.unregister(watched)
            os.close(watched)
            del running[watched]
            yield Tried(trial.mutant, os.waitstatus_to_exitcode(status), took)


def _fork(run: Callable[[], int]) -> int:
    pid = os.fork()
    if pid:
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        return pid
    code = 3
    try:
        with suppress(PermissionError):
            os.setpgid(0, 0)
        code = run()
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def _whole(tests: Sequence[str], mutant: Mutant, folder: str) -> int:
    """Everything of the project is imported anew, the mutant's text in place of its module's."""
    loaded = _load_instead(ROOT / mutant.module, mutant.source)
    code = _pytest(tests, folder)
    if not mutant.was:
        known = [(name, getattr(sys.modules[name], "__file__", None)) for name in sys.modules]
        ours = [f"{name} {path}\n" for name, path in known if path and name.startswith("cephlab")]
        Path(folder, LOADED).write_text("".join(ours))
    if not loaded:
        print(f"no test loads {mutant.module} in a way that it can be replaced", flush=True)
    return code if loaded else pytest.ExitCode.NO_TESTS_COLLECTED


def _pytest(tests: Sequence[str], folder: str, *plugins: object) -> int:
    null, output = os.open(os.devnull, os.O_RDONLY), os.open(Path(folder, "output"), os.O_WRONLY | os.O_CREAT)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    sys.argv = ["pytest"]
    # Captured by files that all forks would share, output is left alone instead. Loading hypothesis takes longer than
    # most modules' tests; tests that use it load it themselves, and its plugin only adds to what is printed. pytest has
    # a loader of its own for what it rewrites, which is all of an installed plugin: no mutant would be loaded by it.
    options = ["-x", "-q", "-s", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    code = int(pytest.main([*options, "-m", "not real and not bench", *tests], plugins=list(plugins)))
    sys.stdout.flush()
    return code


def _load_instead(path: Path, source: str) -> list[str]:
    """Have the import system take this text for that file; the names by which it was imported, as they come in."""
    plain = SourceFileLoader.get_code
    loaded: list[str] = []

    def get_code(self: Any, fullname: str) -> CodeType | None:
        if Path(self.path).resolve() == path:
            loaded.append(fullname)
            return compile(source, self.path, "exec")
        code: CodeType | None = plain(self, fullname)
        return code

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    return loaded


def _functions(path: Path) -> Mapping[str, Sequence[FunctionType]]:
    """Qualified name -> the functions of a module, wherever they are referred to."""
    gc.unfreeze()
    named: dict[str, list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and Path(thing.__code__.co_filename).resolve() == path:
            named[thing.__code__.co_qualname].append(thing)
    return named


def _items(session: pytest.Session, functions: Mapping[str, Sequence[FunctionType]], mutant: Mutant) -> int:
    """The tests that were collected, with the code of each function taken from the mutant's text."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for code in _codes(_compiled(mutant)):
        for function in functions.get(code.co_qualname, ()):
            function.__code__ = code
    for item, following in zip_longest(session.items, session.items[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def _fits(plain: Mutant, mutant: Mutant) -> bool:
    """Whether functions that exist can take over the mutant's code: not where it refers to other names around it."""
    both = [
        [(code.co_qualname, code.co_freevars) for code in _codes(_compiled(mutated))] for mutated in (plain, mutant)
    ]
    return both[0] == both[1]


def _compiled(mutant: Mutant) -> CodeType:
    return compile(mutant.source, str(ROOT / mutant.module), "exec")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
