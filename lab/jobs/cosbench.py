"""Imports COSBench's XML as a job: stages, works, ratios and selectors. It reads no credentials and no endpoints."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from cephlab.lab.base.errors import SpecError
from cephlab.lab.jobs.jobfile import HINT, Job, made_job, refused

OPERATIONS = {"read": "get", "write": "put", "list": "list", "delete": "delete", "head": "head"}
STORAGES = ("s3", "none", "mock")
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
"""The units of COSBench are decimal."""
DELAYS = ("closuredelay", "clousuredelay")
"""The second spelling is that of the Altra paper."""
_STATED: Mapping[str, tuple[str, ...]] = {
    "workload": ("name", "description", "config"),
    "workflow": ("config",),
    "auth": ("type", "config"),
    "storage": ("type", "config"),
    "workstage": ("name", "config", *DELAYS),
    "work": ("name", "type", "workers", "runtime", "rampup", "totalOps", "config", *DELAYS),
    "operation": ("type", "ratio", "config"),
}
"""Attributes that are read, or that are known but have no meaning here."""
_IGNORED = ("rampdown", "interval", "division", "driver", "afr", "trigger", "id")
_KEYS = ("cprefix", "oprefix", "containers", "objects", "sizes")
_IGNORED_KEYS = ("csuffix", "osuffix", "chunked", "content", "hashCheck", "createContainer", "isRandom")
_SECRET_KEYS: tuple[str, ...] = (
    "accesskey",
    "secretkey",
    "endpoint",
    "proxyhost",
    "proxyport",
    "path_style_access",
    "timeout",
)
_SECRET_KEYS += ("username", "password", "url", "token", "storage_url", "auth_url", "region")
_BELOW = {
    "workload": ("auth", "storage", "workflow"),
    "workflow": ("workstage",),
    "workstage": ("auth", "storage", "work"),
    "work": ("auth", "storage", "operation"),
}
_SELECTOR = re.compile(r"\s*([a-z])\s*\(([^()]*)\)\s*([A-Za-z]*)\s*", re.IGNORECASE)
_MAIN = "normal"


@dataclass
class Element:
    """One element of the file, with its line."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list["Element"] = field(default_factory=list)


@dataclass(frozen=True)
class Picked:
    """What a selector picks: ranges (first, last, weight). in_order: sequentially, not at random."""

    ranges: tuple[tuple[int, int, float], ...]
    in_order: bool

    @property
    def last(self) -> int:
        return max(last for _, last, _ in self.ranges)

    def told(self) -> list[list[float]]:
        return [list(picked) for picked in self.ranges]


@dataclass(frozen=True)
class Touched:
    """What a work or an operation uses: the prefixes that identify a set of objects, and which objects of that set."""

    names: tuple[str, str]
    buckets: Picked
    objects: Picked | None
    sizes: Picked | None

    @property
    def over(self) -> dict[str, Any]:
        """The entry for `over` in the job."""
        assert self.objects is not None
        in_order = {"in_order": True} if self.objects.in_order else {}
        return {"buckets": self.buckets.told(), "objects": self.objects.told(), **in_order}


def parse_xml(text: bytes, source: str) -> Element:
    """The root element. SpecError if it is not XML, and for a DTD: entities are never expanded."""
    parser = expat.ParserCreate()
    root = Element("", {}, 0)
    open_elements = [root]

    def begin(name: str, attributes: dict[str, str]) -> None:
        element = Element(name, attributes, parser.CurrentLineNumber)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def refuse(*_: object) -> None:
        raise refused(source, parser.CurrentLineNumber, "a document type", "DOCTYPE", "only elements")

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: open_elements.pop()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset}: {expat.ErrorString(error.code)}"
        raise SpecError(
            f"{source} is not XML", where, "if an attribute contains <, as in COSBench's own samples, write &lt;"
        ) from None
    except (LookupError, ValueError) as error:  # of Python's decoder
        raise SpecError(f"{source} is in an encoding that cannot be read", str(error), "save it as UTF-8") from None
    return root.children[0]


def import_cosbench(text: bytes, *, name: str, source: str) -> Job:
    """A workload file as a job; SpecError names the element and the line of anything unknown."""
    reader = _Reader(name, source)
    root = parse_xml(text, source)
    reader.known(root, "", ("workload",))
    for flow in reader.below(root):
        for stage in reader.below(flow):
            reader.stage(stage, {**settings(reader, root), **settings(reader, flow)})
    return reader.job()


def settings(reader: "_Reader", element: Element) -> dict[str, str]:
    """The `config` of an element, with its keys checked."""
    known: dict[str, str] = {}
    for part in filter(str.strip, element.attributes.get("config", "").split(";")):
        key, _, value = part.partition("=")
        if key.strip() in _IGNORED_KEYS:
            reader.ignore(element, key.strip())
        elif key.strip() in _KEYS:
            known[key.strip()] = "".join(value.split())
        else:
            raise reader.refuse(element, f"key {key.strip()!r} of <{element.name}>", key.strip(), ", ".join(_KEYS))
    return known


class _Reader:
    """Reads one file. notes: remarks for the user."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source
        self.notes: list[str] = []
        self.loads: list[dict[str, Any]] = []
        self.filled: dict[tuple[str, str], Touched] = {}
        self.of_names: dict[tuple[str, str], dict[str, Any]] = {}

    def refuse(self, element: Element, what: str, got: str, wanted: str) -> SpecError:
        return refused(self.source, element.line, what, got, wanted)

    def ignore(self, element: Element, key: str) -> None:
        self.note(element, f"<{element.name}> {key} is ignored")

    def note(self, element: Element, words: str) -> None:
        self.notes.append(f"line {element.line}: {words}")

    def known(self, element: Element, within: str, names: Sequence[str]) -> None:
        """Refuse an unknown element or attribute."""
        if element.name not in names:
            where = f" in <{within}>" if within else ""
            raise self.refuse(element, f"element <{element.name}>{where}", element.name, ", ".join(names))
        for key in element.attributes:
            if key in _IGNORED:
                self.ignore(element, key)
            elif key not in _STATED[element.name]:
                wanted = ", ".join(_STATED[element.name])
                raise self.refuse(element, f"attribute {key!r} of <{element.name}>", key, wanted)

    def below(self, element: Element) -> list[Element]:
        """Its children except storage and auth, of which only the type of the storage is checked."""
        children = []
        for child in element.children:
            self.known(child, element.name, _BELOW.get(element.name, ()))
            if child.name == "storage" and child.attributes.get("type", "none") not in STORAGES:
                raise self.refuse(child, "<storage> type", child.attributes["type"], ", ".join(STORAGES))
            if child.name in ("auth", "storage"):
                keys = [part.partition("=")[0].strip() for part in child.attributes.get("config", "").split(";")]
                # Show only well-known key names: their values are credentials and endpoints.
                words = [key for key in keys if key in _SECRET_KEYS]
                self.note(child, f"<{child.name}> is not copied" + (f": {', '.join(words)}" if words else ""))
            else:
                children.append(child)
        return children

    def number(self, element: Element, key: str, default: int | None = None) -> int:
        text = element.attributes.get(key, "" if default is None else str(default))
        if not text.isdecimal():
            raise self.refuse(element, f"{key} of <{element.name}>", repr(text), "a whole number")
        return int(text)

    def picked(self, element: Element, key: str, text: str) -> Picked:
        """Parse the selector of `key`: c(n), u(a,b), r(a,b), s(a,b) or h(a|b|w,...), sizes with a unit."""
        match = _SELECTOR.fullmatch(text)
        units = UNITS if key == "sizes" else {"": 1}
        if match is None or match[1].lower() not in "cursh" or match[3].upper() not in units:
            wanted = "c(n), u(a,b), r(a,b), s(a,b) or h(a|b|weight,...)" + (
                " with B, KB, MB or GB" if len(units) > 1 else ""
            )
            raise self.refuse(element, f"{key} of <{element.name}>", repr(text), wanted)
        kind, unit = match[1].lower(), units[match[3].upper()]
        count = {"c": 1, "h": 3}.get(kind, 2)
        try:
            rows = [[int(part) for part in row.split("|")] for row in match[2].split(",")]
            rows = rows if kind == "h" else [[number for row in rows for number in row]]
            if any(len(row) != count or min(row) < 0 for row in rows):
                raise ValueError
        except ValueError:
            raise self.refuse(
                element, f"{key} of <{element.name}>", repr(text), f"{count} numbers in {kind}()"
            ) from None
        ranges = tuple(
            (row[0] * unit, row[-1 if kind != "h" else 1] * unit, float(row[2] if kind == "h" else 1)) for row in rows
        )
        if any(first > last or weight <= 0 or (first < 1 and key != "sizes") for first, last, weight in ranges):
            raise self.refuse(element, f"{key} of <{element.name}>", repr(text), "first <= last, weights above 0")
        return Picked(ranges, kind in "rs")

    def touched(self, element: Element, config: Mapping[str, str]) -> Touched:
        def pick(key: str) -> Picked | None:
            return self.picked(element, key, config[key]) if key in config else None

        names = config.get("cprefix", ""), config.get("oprefix", "")
        return Touched(names, pick("containers") or Picked(((1, 1, 1.0),), False), pick("objects"), pick("sizes"))

    def stage(self, stage: Element, above: Mapping[str, str]) -> None:
        """One workstage: its prepare and cleanup works, at most one load, and the delay after it."""
        config = {**above, **settings(self, stage)}
        works = self.below(stage)
        mains = [work for work in works if self.kind_of(work) == _MAIN]
        if len(mains) > 1:
            raise self.refuse(mains[1], "a second load in one stage", "two works of type normal", "one per stage")
        pause_s = self.delay(stage)
        for work in works:
            pause_s += self.delay(work)
            self.work(work, {**config, **settings(self, work)})
        if pause_s and self.loads:
            self.loads[-1]["pause_s"] = self.loads[-1].get("pause_s", 0) + pause_s
        elif pause_s:
            self.note(stage, f"its delay of {pause_s} s comes before any load and is ignored")

    def kind_of(self, work: Element) -> str:
        return work.attributes.get("type", _MAIN)

    def delay(self, element: Element) -> int:
        for key in DELAYS:
            if key in element.attributes:
                if key != DELAYS[0]:
                    self.note(element, f"{key} is read as {DELAYS[0]}")
                return self.number(element, key)
        return 0

    def work(self, work: Element, config: Mapping[str, str]) -> None:
        kind = self.kind_of(work)
        if kind == _MAIN:
            self.main(work, config)
        elif kind == "prepare":
            touched = self.touched(work, config)
            if touched.objects is None or touched.sizes is None:
                raise self.refuse(work, "a prepare work", "no objects or no sizes", "both")
            self.filled[touched.names] = touched
        elif kind == "cleanup":
            self.cleanup(work, self.touched(work, config))
        elif kind in ("init", "dispose"):
            self.note(
                work, f"{kind} is ignored: the lab creates buckets for each load, and removes them with the cluster"
            )
        elif kind != "delay":
            known = f"{_MAIN}, prepare, cleanup, init, dispose, delay"
            raise self.refuse(work, "<work> type", repr(kind), known)

    def cleanup(self, work: Element, touched: Touched) -> None:
        load = self.of_names.get(touched.names)
        if load is None or touched.objects is None:
            prefix = touched.names[1] or "none"
            self.note(work, f"cleanup (oprefix {prefix}) matches no object of a load, so it is ignored")
        elif "clean" in load["phases"]:
            self.note(work, "a second cleanup of the same load is ignored")
        else:
            load["over"]["clean"] = touched.over
            load["phases"].append("clean")
            enlarge(load, touched)

    def main(self, work: Element, config: Mapping[str, str]) -> None:
        """Read the work that is the load."""
        parts = [(part, self.operation(part)) for part in self.below(work)]
        parts = [(part, share) for part, share in parts if share]
        if sum(share for _, share in parts) != 100:
            got = " + ".join(str(share) for _, share in parts) or "none"
            raise self.refuse(work, "ratio of the operations", got, "a sum of 100")
        kinds = [OPERATIONS[part.attributes["type"]] for part, _ in parts]
        if len(kinds) != len(set(kinds)):
            raise self.refuse(work, "operations of one type", ", ".join(kinds), "each type once")
        takes = [self.touched(part, {**config, **settings(self, part)}) for part, _ in parts]
        if len({used.names for used in takes}) > 1:
            raise self.refuse(work, "a work", "several prefixes", "one cprefix and oprefix for all its operations")
        written = [used for kind, used in zip(kinds, takes, strict=True) if kind == "put"]
        ready = self.filled.get(takes[0].names)
        if ready is None and {"get", "head"} & {*kinds}:
            raise self.refuse(
                work, "a work that reads", "no objects to read", "an earlier prepare or write with the same prefixes"
            )
        sizes = {used.sizes for used in (*written, *([ready] if ready else [])) if used.sizes}
        if len(sizes) != 1:
            raise self.refuse(work, "a work", f"{len(sizes)} sizes of objects", "one for all that are put")
        load: dict[str, Any] = {
            "name": self.unused(work.attributes.get("name") or "main"),
            "buckets": 1,
            "objects": 1,
            "sizes": sizes.pop().told(),
            "workers": self.number(work, "workers"),
            "rampup_s": self.number(work, "rampup", 0),
            "runtime_s": self.number(work, "runtime", 0),
            "operations": self.number(work, "totalOps", 0),
            "mix": dict(zip(kinds, (share for _, share in parts), strict=True)),
            "over": {},
            "phases": [*(["fill"] if ready else []), "run"],
        }
        for (part, _), kind, used in zip(parts, kinds, takes, strict=True):
            if used.objects is None and kind != "list":
                raise self.refuse(part, f"{part.attributes['type']} of <operation>", "no objects", "objects=...")
            load["over"][kind] = used.over if used.objects else {"buckets": used.buckets.told()}
            enlarge(load, used)
        if ready:
            load["over"]["fill"] = ready.over
            enlarge(load, ready)
        for used in written:
            # Its objects count as existing for later loads, which fill their own buckets with them first.
            self.filled.setdefault(used.names, used)
        self.loads.append(load)
        self.of_names[takes[0].names] = load

    def operation(self, part: Element) -> int:
        """The ratio of an operation, whose type must be known."""
        kind = part.attributes.get("type", "")
        if kind not in OPERATIONS:
            raise self.refuse(part, "<operation> type", repr(kind), ", ".join(OPERATIONS))
        ratio = self.number(part, "ratio", 100)
        if ratio > 100:
            raise self.refuse(part, "ratio of <operation>", str(ratio), "0 to 100")
        return ratio

    def unused(self, wanted: str) -> str:
        plain = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")[:32].strip("-") or "load"
        taken = {load["name"] for load in self.loads}
        return next(
            name
            for number in range(1, len(taken) + 3)
            if (name := plain if number == 1 else f"{plain}-{number}") not in taken
        )

    def job(self) -> Job:
        if not self.loads:
            raise SpecError(f"{self.source} has no load", "it has no work of type normal", HINT)
        for load in self.loads:
            load["over"] = {kind: short for kind, over in load["over"].items() if (short := parts(load, over))}
        return made_job(
            self.source, {"name": self.name, "source": self.source, "notes": self.notes, "objects": self.loads}
        )


def enlarge(load: dict[str, Any], touched: Touched) -> None:
    """Enlarge a load so that it has all buckets and objects that are used."""
    load["buckets"] = max(load["buckets"], touched.buckets.last)
    load["objects"] = max(load["objects"], touched.objects.last if touched.objects else 1)


def parts(load: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an `over` that differ from the default, which is to use all."""
    return {key: value for key, value in over.items() if key == "in_order" or value != [[1, load[key], 1.0]]}
