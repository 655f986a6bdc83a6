"""What runs of a home have left on this machine, looked for without the lab's own finders."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

HOME_LABEL = "cephlab.home"
_PROC = Path("/proc")
_KEPT = {"images", "archive", "tmp"}
"""Below a home: what is there to stay, and this bench's own folder for temporary files."""
_LOCKS = {".subnets.lock"}


@dataclass(frozen=True)
class Leftovers:
    """One line for each thing, by kind."""

    processes: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def counts(self) -> Mapping[str, int]:
        return {field.name: len(getattr(self, field.name)) for field in fields(self)}

    def lines(self) -> list[str]:
        return [f"{field.name}: {line}" for field in fields(self) for line in getattr(self, field.name)]


class Unseen(Exception):
    """Something that is to be looked through cannot be: nothing found would say nothing."""


def look(home: Path, temporary: Path, needed: Collection[str] = ()) -> Leftovers:
    """Everything that names the home, in the kernel's tables, the engine's lists and the file system.

    needed: programs that have to be there, as providers in use leave things that only they show. Unseen where one is
    not, or where one that is there does not answer.
    """
    absent = [program for program in needed if shutil.which(program) is None]
    if absent:
        raise Unseen(f"not installed: {', '.join(sorted(absent))}; what runs left cannot be looked for without")
    volumes = tuple(_engine("volume", home))
    return Leftovers(
        processes=tuple(processes(home)),
        containers=tuple(_engine("container", home)),
        networks=tuple(_engine("network", home)),
        volumes=volumes,
        mounts=tuple(line for line in _lines(_PROC / "mounts") if names(line, home)),
        loops=tuple(loops(home, volumes)),
        rules=tuple(rules(home)),
        files=tuple(files(home, temporary)),
    )


def names(text: str, home: Path) -> bool:
    """Whether a text names the home or something below it, but not its images, which other things may use."""
    return any(
        not part.startswith("/images") and (not part or part[0] in "/ \t\0\n:\",'")
        for part in text.split(str(home))[1:]
    )


def processes(home: Path, proc: Path = _PROC) -> Iterator[str]:
    """By their environment and their command line; this very process and its parents are not asked."""
    for folder in sorted(proc.glob("[0-9]*")):
        try:
            environment = (folder / "environ").read_bytes().decode(errors="replace")
            command = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue  # it has just ended
        if f"CEPHLAB_RUN_HOME={home}\0" in environment or f"{home}/runs/" in command:
            yield f"{folder.name} {command[:120]}"


def loops(home: Path, volumes: tuple[str, ...], sys: Path = Path("/sys/block")) -> Iterator[str]:
    """Loop devices over a file of the home, of one of its volumes, or of a volume of ours that is gone."""
    for backing in sorted(sys.glob("loop*/loop/backing_file")):
        file = backing.read_text().strip()
        if (
            names(file, home)
            or any(volume in file for volume in volumes)
            or ("cephlab-" in file and "(deleted)" in file)
        ):
            yield f"{backing.parent.parent.name} {file}"


def rules(home: Path) -> Iterator[str]:
    """Rules of the packet filter with the home's mark."""
    mark = f"cephlab:{hashlib.sha256(str(home).encode()).hexdigest()[:12]}:"
    yield from (line for line in _run("iptables", "-w", "10", "-S").splitlines() if mark in line)


def files(home: Path, temporary: Path) -> Iterator[str]:
    """Whatever is below the home but images and archives, and in the folder for temporary files but pytest's own."""
    for top in sorted(home.glob("*")):
        if top.name not in _KEPT:
            below = [path for path in sorted(top.rglob("*")) if path.name not in _LOCKS] if top.is_dir() else [top]
            yield from (str(path) for path in below)
    yield from (str(path) for path in sorted(temporary.glob("*")) if not path.name.startswith("pytest-of-"))


def _engine(kind: str, home: Path) -> Iterator[str]:
    everything = ("--all",) if kind == "container" else ()
    listed = _run("docker", kind, "ls", *everything, "--filter", f"label={HOME_LABEL}={home}", "--format", "{{json .}}")
    for line in listed.splitlines():
        listing = json.loads(line)
        yield str(listing.get("Names") or listing["Name"])


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()


def _run(*argv: str) -> str:
    """What a program says; nothing where there is no such program. Unseen where it cannot answer."""
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return ""
    if ended.returncode:
        raise Unseen(f"`{' '.join(argv)}` ended with {ended.returncode}: {ended.stderr.strip()}; is it run as root?")
    return ended.stdout
