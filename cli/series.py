"""`cephlab series`: serves or exports the series that the Prometheus of a run kept, or writes a dashboard."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cephlab.cli.archives import ArchiveArgument, named_or_newest
from cephlab.cli.conventions import refuse_unwritable, write_named
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.world import World
from cephlab.lab.base.given import legible
from cephlab.lab.base.home import temporary_folder

PORT = 9095


@dataclass(frozen=True)
class SeriesOptions:
    """What to do with the series."""

    port: Annotated[int, typer.Option(help="Port on 127.0.0.1 to serve on.", min=1, max=65535)] = PORT
    export: Annotated[Path | None, typer.Option(help="Write all samples as OpenMetrics instead.", metavar="FILE")] = (
        None
    )
    dashboard: Annotated[Path | None, typer.Option(help="Write a Grafana dashboard instead.", metavar="FILE")] = None


@framed
def series(out: Output, world: World, options: SeriesOptions, directory: ArchiveArgument = None) -> int:
    """Serve the series of a run with a Prometheus on this machine, until Ctrl-C.

    Example: cephlab series ARCHIVE
    """
    from cephlab.lab.archive import series as kept
    from cephlab.lab.archive.archive import read_archive
    from cephlab.lab.base.process import run_attached
    from cephlab.lab.report.timeline import spans_of

    refuse_unwritable("--dashboard", options.dashboard)
    refuse_unwritable("--export", options.export)
    if options.dashboard is not None:
        write_named(options.dashboard, json.dumps(kept.dashboard(), indent=2) + "\n")
        out.result(str(options.dashboard), {"dashboard": str(options.dashboard)})
        return 0
    archive = named_or_newest(out, world, directory)
    with legible(archive):
        spans = list(spans_of(read_archive(archive).events))
    with TemporaryDirectory(prefix="cephlab-series-", dir=temporary_folder()) as name:
        folder = Path(name)
        kept.unpack(archive, folder)
        server = kept.server_program(world.images)
        if spans and not kept.add_steps(server, folder, spans):
            out.note(f"steps and faults are not marked: {kept.TOOL} is not installed next to {server}")
        if options.export is None:
            out.note(f"http://127.0.0.1:{options.port}")
            return run_attached(kept.argv(server, folder, options.port))
        with kept.served(server, folder, options.port) as api, options.export.open("w") as sink:
            sink.writelines(kept.openmetrics(api))
    out.result(str(options.export), {"export": str(options.export)})
    return 0
