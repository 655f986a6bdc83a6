"""Writes a cluster spec as the TOML file that `load_spec` reads."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields

from cephlab.lab.spec.clusterspec import ClusterSpec, Disk, DiskLimits, Node, Osd
from cephlab.lab.spec.written import size_text

_HEAD = """# A cluster for `cephlab up --spec`. docs/reference/files.md has every key.
# Sizes may have units (10GiB); settings may be text, numbers, true or false."""


def spec_to_toml(spec: ClusterSpec) -> str:
    """The file's text. `load_spec` reads an equal spec from it. Default values are left out."""
    lines = [_HEAD, ""]
    lines.append(f"image = {_text(spec.image)}" if spec.image else f"release = {_text(spec.release)}")
    if spec.options:
        lines += ["", "[options]", *(f"{_text(key)} = {_text(value)}" for key, value in spec.options.items())]
    for node in spec.nodes:
        lines += ["", "[[nodes]]", *_node(node)]
    return "\n".join(lines) + "\n"


def _node(node: Node) -> Iterator[str]:
    yield from _lines(node)
    for disk in node.disks:
        yield from ("", "[[nodes.disks]]", *_lines(disk, always=("size_bytes",)))
        if disk.limits.any():
            yield from ("", "[nodes.disks.limits]", *_lines(disk.limits))
    for osd in node.osds:
        yield from ("", "[[nodes.osds]]", *_lines(osd))


def _lines(table: Node | Disk | DiskLimits | Osd, always: tuple[str, ...] = ()) -> Iterator[str]:
    """One line for each value that is not a table and not the default."""
    for field in fields(table):
        value = getattr(table, field.name)
        tables = isinstance(value, tuple | DiskLimits | Mapping) and field.name != "services"
        if not tables and (value != field.default or field.name in always):
            yield f"{field.name} = {_value(field.name, value)}"


def _value(key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and key.endswith(("_bytes", "_bytes_s")):
        return _text(size_text(value))
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(list(value)) if isinstance(value, tuple) else _text(str(value))


def _text(words: str) -> str:
    # A JSON string is a TOML basic string as long as nothing beyond ASCII has to be escaped.
    return json.dumps(words, ensure_ascii=False)
