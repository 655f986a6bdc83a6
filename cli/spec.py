"""`cephlab spec init`, and the page of `cephlab up --dry-run`: a cluster before it is raised."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.conventions import Command, Group, refuse_unwritable, write_named
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.cli.request import NewCluster
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many

if TYPE_CHECKING:
    from rich.console import Group as Parts

    from cephlab.lab.ceph.conf import Sizing
    from cephlab.lab.providers.select import Choice
    from cephlab.lab.spec.clusterspec import ClusterSpec, Node

app = typer.Typer(name="spec", cls=Group, help="Write files that describe a whole cluster.", no_args_is_help=True)


@app.command("init", cls=Command)
@framed
def init(
    out: Output,
    world: World,
    cluster: NewCluster,
    file: Annotated[Path, typer.Argument(help="File to write; must not exist.", metavar="FILE")],
) -> None:
    """Write a spec file as a starting point, from the options of `cephlab up`.

    Example: cephlab spec init demo.toml --nodes x86_64:2,aarch64:1 --mons 3
    """
    from cephlab.lab.providers.select import AUTO, foreign_runs
    from cephlab.lab.spec.specwriter import spec_to_toml

    refuse_unwritable("FILE", file)
    if cluster.release is not None:
        world.images.book.release(cluster.release)
    spec = cluster.build(foreign_runs=cluster.nodes is not None or foreign_runs(AUTO, world.providers))
    if os.path.lexists(file):
        raise SpecError(f"{file} already exists", "nothing was written", "name another file, or remove it")
    write_named(file, spec_to_toml(spec))
    out.note(f"look at it with: cephlab up --spec {quote(str(file))} --dry-run")
    out.result(str(file), {"file": str(file.absolute())})


def plan_page(spec: ClusterSpec, choice: Choice, sizing: Sizing, cached: dict[str, str | None]) -> Parts:
    """What would be raised: nodes, provider and images. cached: architecture -> image key, None if not cached."""
    from rich.console import Group as Parts

    columns = ("node", "arch", "daemons", "disks")
    images = [f"{arch}: {key[:12] if key else 'would be built'}" for arch, key in cached.items()]
    lines = [
        "",
        f"provider: {choice.reason}",
        f"image:    {spec.image or spec.release}" + (f" ({', '.join(images)})" if images else ""),
        f"sizes:    {sizing.reason}",
        *(f"setting:  {key} = {value}" for key, value in spec.options.items()),
        "nothing was started",
    ]
    return Parts(table(columns, [_row(node) for node in spec.nodes], wrapped=columns[2:]), "\n".join(lines))


def plan_value(spec: ClusterSpec, choice: Choice, cached: dict[str, str | None]) -> dict[str, Any]:
    """The same as JSON; the spec has the form of a run's `cluster.json`."""
    from cephlab.lab.spec.specfile import spec_to_json

    return {"provider": choice.provider.name, "reason": choice.reason, "images": cached, "spec": spec_to_json(spec)}


def _row(node: Node) -> list[str]:
    from cephlab.lab.spec.written import size_text

    core = [*(["mon"] if node.mon else []), *(["mgr"] if node.mgr else [])]
    osds = [how_many(len(node.osds), "OSD")] if node.osds else []
    disks = ", ".join(f"{disk.name} {size_text(disk.size_bytes)} {disk.device_class}" for disk in node.disks)
    return [node.name, node.arch.value, ", ".join([*core, *osds, *node.services]) or "none", disks or "none"]
