"""`cephlab import`: converts test plans of other tools into a job file of the lab."""

from __future__ import annotations

import os
import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli.completion import RELEASES
from cephlab.cli.conventions import Command, Group, refuse_unwritable, write_named
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import read_bytes, read_text
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE

if TYPE_CHECKING:
    from cephlab.lab.jobs.jobfile import Job

app = typer.Typer(
    name="import",
    cls=Group,
    help="Convert a test plan of another tool into a job for `gate --job`.",
    no_args_is_help=True,
)

Plan = Annotated[Path, typer.Argument(help="The plan to read.", metavar="FILE")]
Target = Annotated[
    Path | None, typer.Option("-o", "--output", help="File to write.", metavar="FILE", show_default="NAME.toml")
]
MOST_BYTES = 10_000_000
"""No test plan is larger."""


@app.command("cosbench", cls=Command)
@framed
def cosbench(out: Output, world: World, file: Plan, output: Target = None) -> None:
    """Convert a COSBench plan (XML): stages, works, ratios, selectors. Credentials and endpoints are left out.

    Example: cephlab import cosbench s3-config.xml
    """
    from cephlab.lab.jobs.cosbench import import_cosbench

    write(out, import_cosbench(read_bytes(file, most_bytes=MOST_BYTES), name=name_of(file), source=file.name), output)


@app.command("cbt", cls=Command)
@framed
def cbt(
    out: Output,
    world: World,
    file: Plan,
    conf: Annotated[
        Path | None, typer.Option(help="ceph.conf of the plan; the job takes its settings.", metavar="FILE")
    ] = None,
    release: Annotated[
        str, typer.Option(help="With --conf: the release whose settings are valid.", autocompletion=RELEASES)
    ] = DEFAULT_RELEASE,
    output: Target = None,
) -> None:
    """Convert a CBT plan (YAML): librbdfio, radosbench and mysqlsysbench. Hosts, users and paths are left out.

    Example: cephlab import cbt runtests.yaml --conf ceph.conf
    """
    from cephlab.lab.cluster.optionnames import known_options
    from cephlab.lab.jobs.cbt import import_cbt
    from cephlab.lab.jobs.cephconf import read_conf

    settings = None
    if conf is not None:
        image = world.images.cached(release, host_arch())
        known = known_options(image) if image is not None else None
        settings = read_conf(read_text(conf, most_bytes=MOST_BYTES), conf.name, known, release)
    write(
        out,
        import_cbt(read_text(file, most_bytes=MOST_BYTES), name=name_of(file), source=file.name, conf=settings),
        output,
    )


def name_of(path: Path) -> str:
    """A job's name, from the name of the plan's file."""
    return re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40].strip("-") or "job"


def write(out: Output, job: Job, output: Path | None) -> None:
    """Write a job's file and print what was left out; SpecError if the file exists."""
    from cephlab.lab.jobs.jobfile import job_to_toml

    target = output or Path(f"{job.name}.toml")
    refuse_unwritable("--output", target)
    if os.path.lexists(target):
        raise SpecError(f"{target} already exists", "nothing was written", "name another with -o")
    write_named(target, job_to_toml(job))
    for line in job.notes:
        out.note(line)
    out.note(f"check it, then run: cephlab gate --job {quote(str(target))}")
    out.result(str(target), {"file": str(target.absolute()), "notes": list(job.notes)})
