"""Defects that can be planted into one architecture's programs, and the scenarios that have to find each.

Each is a C file beside this one, to be compiled for that architecture (`cephlab.lab.images.shim.compiler.build`) and
preloaded into programs of it; no image is touched.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cephlab.lab.spec.arch import Arch

HERE = Path(__file__).parent
Into = Literal["daemons", "clients", "both", "mon", "mgr", "osd", "mds", "rgw"]


@dataclass(frozen=True)
class Planted:
    """source: in this folder. finds: names of scenarios that go red. provider: what such a run needs.

    into: which programs preload it, daemons of one kind where one is named; tools such as ceph-erasure-code-tool count
    as clients.
    """

    name: str
    source: str
    arch: Arch
    into: Into
    finds: tuple[str, ...]
    provider: str = "local"


PLANTED: tuple[Planted, ...] = (
    Planted(
        "parity_14th",
        "parity_14th.c",
        Arch.AARCH64,
        "both",
        (
            "interop.parity",
            "interop.erasure-stripes[plugin=jerasure,technique=reed_sol_van,k=2,m=1,stripe_unit=4096]",
            "interop.erasure-stripes[plugin=isa,technique=reed_sol_van,k=4,m=2,stripe_unit=4096]",
        ),
    ),
    Planted(
        "name_hash_long",
        "name_hash_long.c",
        Arch.AARCH64,
        "both",
        (
            "interop.placement-names",
            "interop.names[writer=aarch64,reader=x86_64,pool=replicated]",
            "interop.rbd-edges[writer=x86_64,reader=aarch64]",
        ),
    ),
    Planted(
        "lz4_own",
        "lz4_own.c",
        Arch.AARCH64,
        "both",
        ("interop.messenger-compressed[algorithm=lz4]", "interop.moved[writer=aarch64,reader=x86_64]"),
    ),
    Planted("leak_send", "leak_send.c", Arch.X86_64, "daemons", ("baseline.growth",)),
    Planted("leak_slow", "leak_slow.c", Arch.X86_64, "daemons", ("stress.mixed",)),
    Planted("leak_write", "leak_write.c", Arch.X86_64, "daemons", ("stress.mixed",)),
    Planted("slows", "slows.c", Arch.X86_64, "daemons", ("stress.mixed",)),
    Planted("says_lines", "says_lines.c", Arch.X86_64, "daemons", ("stress.mixed",)),
    Planted("client_stops", "client_stops.c", Arch.X86_64, "clients", ("stress.mixed",)),
    Planted("files_send", "files_send.c", Arch.X86_64, "daemons", ("baseline.growth",)),
    Planted(
        "crc_tail",
        "crc_tail.c",
        Arch.AARCH64,
        "daemons",
        ("interop.names[writer=x86_64,reader=aarch64,pool=replicated]",),
    ),
    Planted(
        "xattr_long",
        "xattr_long.c",
        Arch.AARCH64,
        "clients",
        ("interop.names[writer=aarch64,reader=x86_64,pool=replicated]", "interop.walk-rados"),
    ),
    Planted(
        "order_signed",
        "order_signed.c",
        Arch.AARCH64,
        "daemons",
        (
            "interop.names[writer=x86_64,reader=aarch64,pool=replicated]",
            "interop.walk-rados",
            "interop.moved[writer=aarch64,reader=x86_64]",
        ),
    ),
    Planted("etag_large", "etag_large.c", Arch.AARCH64, "rgw", ("interop.walk-s3",)),
    Planted(
        "zlib_own",
        "zlib_own.c",
        Arch.AARCH64,
        "daemons",
        ("interop.messenger-compressed[algorithm=zlib]",),
    ),
    Planted("clock_ahead", "clock_ahead.c", Arch.AARCH64, "osd", ("baseline.clocks",)),
    Planted("spins", "spins.c", Arch.X86_64, "osd", ("baseline.growth",)),
    Planted("fsync_none", "fsync_none.c", Arch.X86_64, "osd", ("powerloss.replayed",), provider="uml"),
    Planted("says_overflow", "says_overflow.c", Arch.X86_64, "daemons", ("interop.roles",)),
    Planted("stands_still", "stands_still.c", Arch.X86_64, "daemons", ("baseline.growth",)),
)
