"""Imports CBT's YAML as a job: its librbdfio, radosbench and sysbench blocks. Of `cluster` it only counts clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from cephlab.lab.base.errors import SpecError
from cephlab.lab.jobs.cephconf import Conf
from cephlab.lab.jobs.jobfile import HINT, Job, made_job, refused
from cephlab.lab.spec.clusterspec import MIB

_LIBRBD = (
    *("time", "vol_size", "mode", "rwmixread", "op_size", "pool_profile"),
    *("procs_per_volume", "numjobs", "volumes_per_client", "iodepth", "total_iodepth"),
)
_RADOS = ("op_size", "write_only", "readmode", "time", "concurrent_ops", "concurrent_procs", "pool_profile")
_SYSBENCH = ("num-threads", "oltp-table-size", "max-time")
_IGNORED = {
    "librbdfio": "osd_ra cmd_path log_avg_msec log_iops log_bw log_lat norandommap time_based ramp direct poolname "
    "use_existing_volumes fio_out_format idle_monitor_sleep no_sudo precond_time prefill",
    "radosbench": "osd_ra cmd_path poolname pool_per_proc object_set_id osd_ra_changed max_objects prefill",
    "mysqlsysbench": "cmd_path test-path prepare-path use-local-path",
}
_BENCHMARKS = {"librbdfio": _LIBRBD, "radosbench": _RADOS, "mysqlsysbench": _SYSBENCH}
_PARTS = ("cluster", "benchmarks", "client_endpoints", "monitoring_profiles", "report")


@dataclass
class _Reader:
    """Reads one file. notes: remarks for the user."""

    source: str
    notes: list[str] = field(default_factory=list)
    clients: int = 1

    def pairs(self, node: yaml.Node, what: str) -> dict[str, tuple[int, yaml.Node]]:
        """Key -> (line, value) of a mapping."""
        if not isinstance(node, yaml.MappingNode):
            raise refused(self.source, line_of(node), what, "no mapping", "key: value")
        return {str(key.value): (line_of(key), value) for key, value in node.value}

    def numbers(self, node: yaml.Node, key: str) -> list[int]:
        """One whole number or a list of them."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for item in nodes:
            if not isinstance(item, yaml.ScalarNode) or not str(item.value).isdecimal() or int(item.value) < 1:
                raise refused(self.source, line_of(item), key, repr(item.value), "whole numbers above 0")
        return [int(item.value) for item in nodes]

    def one(self, node: yaml.Node, key: str) -> int:
        numbers = self.numbers(node, key)
        if len(numbers) != 1:
            raise refused(self.source, line_of(node), key, str(numbers), "one number")
        return numbers[0]

    def texts(self, node: yaml.Node) -> list[str]:
        return [str(item.value) for item in (node.value if isinstance(node, yaml.SequenceNode) else [node])]

    def known(self, name: str, keys: Mapping[str, tuple[int, yaml.Node]]) -> None:
        """Refuse unknown keys of a benchmark; note known keys that are ignored."""
        for key, (line, _) in keys.items():
            if key in _IGNORED[name].split():
                self.notes.append(f"line {line}: {name} {key} is ignored")
            elif key not in _BENCHMARKS[name]:
                raise refused(self.source, line, f"key {key!r} of {name}", key, ", ".join(_BENCHMARKS[name]))


def line_of(node: yaml.Node) -> int:
    """The line of a node, counted from 1."""
    return int(node.start_mark.line) + 1


def compose(text: str, source: str) -> yaml.Node:
    """The nodes of the file, with their lines. SpecError if it is not YAML, and for aliases, which may explode."""
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise refused(source, line, "an alias", f"*{event.anchor}", "the value itself")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        why = getattr(error, "problem", None) or getattr(error, "reason", "")
        raise SpecError(f"{source} is not YAML", f"{where}{why}", HINT) from None
    except RecursionError:
        raise SpecError(f"{source} is not YAML", "its lists and mappings are nested too deeply", HINT) from None
    if node is None:
        raise SpecError(f"{source} is empty", "", HINT)
    return node


def import_cbt(text: str, *, name: str, source: str, conf: Conf | None = None) -> Job:
    """A test plan as a job. conf: its ceph.conf, if given. SpecError names the key and its line."""
    reader = _Reader(source)
    parts = reader.pairs(compose(text, source), "the file")
    for part, (line, node) in parts.items():
        if part == "cluster":
            pools = _cluster(reader, node)
        elif part not in (*_PARTS, "pool_profiles", "erasure_profiles"):
            raise refused(source, line, f"part {part!r}", part, ", ".join(_PARTS))
        elif part not in ("benchmarks", "pool_profiles", "erasure_profiles"):
            reader.notes.append(f"line {line}: {part} is ignored")
    if "cluster" not in parts:
        pools = []
    # The paper puts its profiles next to `cluster`; CBT puts them inside.
    pools += _pools(reader, parts)
    loads: dict[str, list[dict[str, Any]]] = {"blocks": [], "benches": [], "databases": []}
    benchmarks = reader.pairs(parts["benchmarks"][1], "benchmarks") if "benchmarks" in parts else {}
    for benchmark, (line, node) in benchmarks.items():
        if benchmark not in _BENCHMARKS:
            raise refused(source, line, f"benchmark {benchmark!r}", benchmark, ", ".join(_BENCHMARKS))
        keys = reader.pairs(node, benchmark)
        reader.known(benchmark, keys)
        place, make = _MAKERS[benchmark]
        loads[place].append({"name": benchmark, **make(reader, line, {key: value for key, (_, value) in keys.items()})})
    if conf is not None:
        reader.notes += conf.notes
    raw = {"name": name, "source": source, "notes": reader.notes, "pools": pools, **loads}
    return made_job(source, {**raw, "options": conf.options if conf else {}})


def _cluster(reader: _Reader, node: yaml.Node) -> list[dict[str, Any]]:
    """Count the clients, and note the other keys as ignored: their hosts, users and paths belong to another site."""
    keys = reader.pairs(node, "cluster")
    if "clients" in keys:
        reader.clients = len(reader.texts(keys["clients"][1])) or 1
    left = sorted(set(keys) - {"clients", "pool_profiles", "erasure_profiles"})
    if left:
        names = ", ".join(left)
        reader.notes.append(f"line {line_of(node)}: in cluster only the clients are counted; ignored: {names}")
    if "conf_file" in keys:
        reader.notes.append(f"line {keys['conf_file'][0]}: conf_file is read only if --conf names it")
    return _pools(reader, keys)


def _codes(reader: _Reader, parts: Mapping[str, tuple[int, yaml.Node]]) -> dict[str, dict[str, int]]:
    """Erasure profile -> its k and m."""
    codes: dict[str, dict[str, int]] = {}
    if "erasure_profiles" not in parts:
        return codes
    for name, (line, node) in reader.pairs(parts["erasure_profiles"][1], "erasure_profiles").items():
        keys = reader.pairs(node, name)
        for key in ("erasure_k", "erasure_m"):
            if key not in keys:
                raise refused(reader.source, line, f"erasure profile {name!r}", f"no {key}", "erasure_k, erasure_m")
        codes[name] = {part: reader.one(keys[f"erasure_{part}"][1], f"erasure_{part}") for part in "km"}
    return codes


def _pools(reader: _Reader, parts: Mapping[str, tuple[int, yaml.Node]]) -> list[dict[str, Any]]:
    """Pool profiles, with k and m from their erasure profiles."""
    codes = _codes(reader, parts)
    if "pool_profiles" not in parts:
        return []
    pools = []
    for name, (line, node) in reader.pairs(parts["pool_profiles"][1], "pool_profiles").items():
        keys = reader.pairs(node, name)
        pool = {
            "name": name,
            **_protection(reader, line, name, {key: str(value.value) for key, (_, value) in keys.items()}, codes),
        }
        if "pg_size" in keys:
            pool["pg_num"] = reader.one(keys["pg_size"][1], "pg_size")
        left = sorted(set(keys) - {"pg_size", "replication", "erasure_profile"})
        if left:
            reader.notes.append(f"line {line}: pool profile {name}: ignored: {', '.join(left)}")
        pools.append(pool)
    return pools


def _protection(
    reader: _Reader, line: int, name: str, keys: Mapping[str, str], codes: Mapping[str, dict[str, int]]
) -> dict[str, Any]:
    """Copies, or k and m."""
    copies = keys.get("replication", "3")
    if copies.isdecimal():
        return {"copies": int(copies)}
    if copies != "erasure":
        raise refused(reader.source, line, f"replication of {name!r}", repr(copies), "a number or erasure")
    code = keys.get("erasure_profile", "none")
    if code not in codes:
        raise refused(reader.source, line, f"pool profile {name!r}", code, "one of erasure_profiles")
    return dict(codes[code])


def _librbdfio(reader: _Reader, line: int, keys: Mapping[str, yaml.Node]) -> dict[str, Any]:
    def some(key: str, default: int) -> list[int]:
        return reader.numbers(keys[key], key) if key in keys else [default]

    volumes = [reader.clients * count for count in some("volumes_per_client", 1)]
    load: dict[str, Any] = {
        "pattern": reader.texts(keys["mode"]) if "mode" in keys else ["write"],
        "block_bytes": some("op_size", 4 * MIB),
        "depth": some("iodepth", 16),
        "jobs": sorted({a * b for a in some("procs_per_volume", 1) for b in some("numjobs", 1)}),
        "volumes": volumes,
        "volume_bytes": (reader.one(keys["vol_size"], "vol_size") if "vol_size" in keys else 65536) * MIB,
        "runtime_s": reader.one(keys["time"], "time") if "time" in keys else 300,
        "read_percent": reader.one(keys["rwmixread"], "rwmixread") if "rwmixread" in keys else 50,
        **_pool(keys),
    }
    if "total_iodepth" in keys:
        totals = reader.numbers(keys["total_iodepth"], "total_iodepth")
        if len(volumes) > 1 or any(total % volumes[0] for total in totals):
            wanted = "a single number of volumes that divides each total"
            got = f"{totals} for {volumes} volumes"
            raise refused(reader.source, line_of(keys["total_iodepth"]), "total_iodepth", got, wanted)
        load["depth"] = [total // volumes[0] for total in totals]
        reader.notes.append(f"line {line}: total_iodepth is divided evenly among {volumes[0]} volumes")
    return load


def _radosbench(reader: _Reader, line: int, keys: Mapping[str, yaml.Node]) -> dict[str, Any]:
    only = str(keys["write_only"].value).lower() if "write_only" in keys else "false"
    if only not in ("true", "false"):
        raise refused(reader.source, line, "write_only", repr(only), "True or False")
    read = str(keys["readmode"].value) if "readmode" in keys else "seq"
    processes = reader.numbers(keys["concurrent_procs"], "concurrent_procs") if "concurrent_procs" in keys else [1]
    return {
        "block_bytes": reader.numbers(keys["op_size"], "op_size") if "op_size" in keys else [4 * MIB],
        "threads": reader.numbers(keys["concurrent_ops"], "concurrent_ops") if "concurrent_ops" in keys else [16],
        "processes": [reader.clients * count for count in processes],
        "modes": ["write"] if only == "true" else ["write", read],
        "runtime_s": reader.one(keys["time"], "time") if "time" in keys else 60,
        **_pool(keys),
    }


def _sysbench(reader: _Reader, line: int, keys: Mapping[str, yaml.Node]) -> dict[str, Any]:
    if missing := [key for key in _SYSBENCH if key not in keys]:
        raise refused(reader.source, line, "mysqlsysbench", f"no {', '.join(missing)}", ", ".join(_SYSBENCH))
    threads, rows, seconds = (keys[key] for key in _SYSBENCH)
    return {
        "threads": reader.numbers(threads, "num-threads"),
        "rows": reader.numbers(rows, "oltp-table-size"),
        "runtime_s": reader.one(seconds, "max-time"),
    }


def _pool(keys: Mapping[str, yaml.Node]) -> dict[str, str]:
    return {"pool": str(keys["pool_profile"].value)} if "pool_profile" in keys else {}


_MAKERS = {
    "librbdfio": ("blocks", _librbdfio),
    "radosbench": ("benches", _radosbench),
    "mysqlsysbench": ("databases", _sysbench),
}
