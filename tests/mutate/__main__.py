"""`python -m tests.mutate`: every mutant of the modules in ci/mutants.toml is noticed, or is there with its reason."""

import argparse
import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.numbers import percent
from tests.mutate.trial import ROOT, TIMED_OUT, Mutant, Tried, tried

LISTED = ROOT / "ci" / "mutants.toml"
MOST_SURVIVE = 0.05

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Listed:
    """modules: path -> the test files that hold it; survivors: what may survive -> why."""

    modules: Mapping[str, Sequence[str]]
    survivors: Mapping[Key, str]


@dataclass(frozen=True)
class Found:
    """What one module showed. new: survivors that are not listed; gone: listed ones that are noticed, or no mutants."""

    module: str
    mutants: int
    survived: int
    endless: int
    new: tuple[Mutant, ...]
    gone: tuple[Key, ...]


def listed(text: str) -> Listed:
    raw = tomllib.loads(text)
    survivors: dict[Key, str] = {}
    for survivor in raw.get("survivor", ()):
        if not survivor["why"].strip():
            raise SystemExit(f"ci/mutants.toml: {survivor['module']}, {survivor['place']}: a survivor needs its reason")
        survivors[survivor["module"], survivor["place"], survivor["was"], survivor["now"]] = survivor["why"]
    return Listed(raw["modules"], survivors)


def judge(module: str, results: Sequence[Tried], survivors: Mapping[Key, str]) -> Found:
    survived = [result.mutant for result in results if result.code == 0]
    keys = {mutant.key for mutant in survived}
    return Found(
        module=module,
        mutants=len(results),
        survived=len(survived),
        endless=sum(result.code == TIMED_OUT for result in results),
        new=tuple(mutant for mutant in survived if mutant.key not in survivors),
        gone=tuple(key for key in survivors if key[0] == module and key not in keys),
    )


def measure(module: str, tests: Sequence[str], survivors: Mapping[Key, str], jobs: int) -> Found:
    from tests.mutate.mutants import mutants  # libcst takes long to import, and only this needs it

    began = time.monotonic()
    made = list(mutants(module, (ROOT / module).read_text()))
    shown = judge(module, tried(module, made, tests, jobs), survivors)
    show(shown)
    print(f"in {time.monotonic() - began:.0f} s", flush=True)
    return shown


def show(shown: Found) -> None:
    """Print what one module showed, new survivors as they would be listed."""
    print(f"{shown.module}: {shown.survived} of {shown.mutants} mutants survive, {shown.endless} ran without end")
    for mutant in shown.new:
        fields = {"module": mutant.module, "place": mutant.place, "was": mutant.was, "now": mutant.now, "why": ""}
        print("\n[[survivor]]", *(f"{name} = {_quoted(text)}" for name, text in fields.items()), sep="\n")
    for key in shown.gone:
        print(f"\nlisted in ci/mutants.toml, and noticed by a test or no mutant any more: {key}")


def tell(shown: Sequence[Found]) -> int:
    """Print what all modules showed together; 1 where something is to be done."""
    total, survived = sum(module.mutants for module in shown), sum(module.survived for module in shown)
    print(f"\n{survived} of {total} mutants survive ({percent(survived / max(total, 1))})")
    new = Counter(module.module for module in shown for _ in module.new)
    if new:
        print(f"not listed: {dict(new)}; write a test that notices each, or list it in ci/mutants.toml with its reason")
    too_many = survived > MOST_SURVIVE * total
    if too_many:
        print(f"more than {percent(MOST_SURVIVE, '.0f')} survive")
    return int(bool(new) or too_many or any(module.gone for module in shown))


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _changed_since(revision: str) -> set[str]:
    """What differs from where this branch left that revision, committed or not."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    base = git("merge-base", revision, "HEAD").strip()
    return set(git("diff", "--name-only", base, "--").splitlines())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="only these, of those in ci/mutants.toml")
    parser.add_argument("--changed", metavar="REVISION", help="only modules that changed since then, or their tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    all_of_it = listed(LISTED.read_text())
    tests = all_of_it.modules
    modules = chosen.modules or list(tests)
    unknown = {*modules, *(key[0] for key in all_of_it.survivors)} - tests.keys()
    missing = [path for module, files in tests.items() for path in (module, *files) if not Path(ROOT, path).exists()]
    if unknown or missing:
        parser.error(f"ci/mutants.toml: not in its tables of modules: {sorted(unknown)}; no such files: {missing}")
    if chosen.changed:
        changed = _changed_since(chosen.changed)
        modules = [module for module in modules if changed & {module, *tests[module]}]
    if not modules:
        print("no module of ci/mutants.toml changed")
        return 0
    return tell([measure(module, tests[module], all_of_it.survivors, chosen.jobs) for module in modules])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
