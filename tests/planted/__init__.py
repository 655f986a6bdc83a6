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
    as clients. defines: macros of the source, NAME=VALUE. options: wrong settings instead of a source, as arguments.
    """

    name: str
    source: str
    arch: Arch
    into: Into
    finds: tuple[str, ...]
    provider: str = "local"
    defines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def returns(symbol: str, value: int) -> tuple[str, ...]:
    """What `returns.c` is compiled with: the function that does nothing, by its name in C++, and what it returns."""
    return (f'SYMBOL="{symbol}"', f"VALUE={value}")


def skips(library: str, name: str, right: int = 0) -> tuple[str, ...]:
    """What `call_skipped.c` is compiled with: a function of a library, and how many calls work before it does not."""
    return (f'LIBRARY="{library}"', f'SYMBOL="{name}"', f"NAME={name}", f"RIGHT={right}")


STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
"""std::string in the name of a C++ function."""

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
    Planted("etag_large", "etag_large.c", Arch.AARCH64, "rgw", ("s3.walk",)),
    Planted(
        "zlib_own",
        "zlib_own.c",
        Arch.AARCH64,
        "daemons",
        ("interop.messenger-compressed[algorithm=zlib]",),
    ),
    Planted("clock_ahead", "clock_ahead.c", Arch.AARCH64, "osd", ("baseline.clocks",), defines=("AHEAD_MS=40000",)),
    Planted("spins", "spins.c", Arch.X86_64, "osd", ("baseline.growth",)),
    Planted("fsync_none", "fsync_none.c", Arch.X86_64, "osd", ("powerloss.replayed",), provider="uml"),
    Planted("says_overflow", "says_overflow.c", Arch.X86_64, "daemons", ("interop.roles",)),
    Planted("stands_still", "stands_still.c", Arch.X86_64, "daemons", ("baseline.growth",)),
    Planted(
        "pool_cap_ignored",
        "returns.c",
        Arch.X86_64,
        "osd",
        ("interop.keys-client[client=x86_64]",),
        defines=returns(f"_ZNK19OSDCapPoolNamespace8is_matchERK{STRING}S7_", 1),
    ),
    Planted(
        "mon_cap_ignored",
        "returns.c",
        Arch.X86_64,
        "mon",
        ("interop.keys-client[client=x86_64]",),
        defines=returns(
            f"_ZNK6MonCap10is_capableEPN4ceph6common11CephContextE10EntityNameRK{STRING}SC_RKSt3mapISA_SA_St4lessISA_E"
            "SaISt4pairISB_SA_EEEbbbRK13entity_addr_t",
            1,
        ),
    ),
    Planted(
        "mds_cap_ignored",
        "returns.c",
        Arch.X86_64,
        "mds",
        ("cephfs.caps",),
        defines=returns(
            "_ZNK11MDSAuthCaps10is_capableESt17basic_string_viewIcSt11char_traitsIcEEjjjjjPKSt6vectorImSaImEEjjjRK13"
            "entity_addr_t",
            1,
        ),
    ),
    Planted(
        "snap_trim_none",
        "returns.c",
        Arch.X86_64,
        "osd",
        ("interop.objects[client=aarch64,primary=x86_64,pool=replicated]",),
        defines=returns("_ZN10SnapMapper24get_next_objects_to_trimE8snapid_tjPSt6vectorI9hobject_tSaIS2_EE", -2),
    ),
    Planted(
        "tails_kept",
        "returns.c",
        Arch.X86_64,
        "rgw",
        ("s3.space",),
        defines=returns("_ZN8RGWRados6Object28complete_atomic_modificationEPK18DoutPrefixProviderb", 0),
    ),
    Planted(
        "purge_none",
        "returns.c",
        Arch.X86_64,
        "mds",
        ("cephfs.scrub[mds=x86_64]",),
        defines=returns("_ZN10PurgeQueue8_consumeEv", 0),
    ),
    Planted(
        "locks_forgotten",
        "returns.c",
        Arch.X86_64,
        "mds",
        ("cephfs.walk-moved-long",),
        defines=returns("_ZN6Server17recover_filelocksEP6CInodeN4ceph6buffer7v15_2_04listEl", 0),
    ),
    Planted(
        "space_kept",
        "returns.c",
        Arch.X86_64,
        "osd",
        ("resilience.full-cluster",),
        defines=returns("_ZN9BlueStore18_txc_release_allocEPNS_12TransContextE", 0),
    ),
    Planted(
        "pool_quota_ignored",
        "returns.c",
        Arch.X86_64,
        "mon",
        ("resilience.full-pool",),
        defines=returns("_ZN10OSDMonitor19update_pools_statusEv", 0),
    ),
    Planted(
        "gateway_behind",
        "clock_ahead.c",
        Arch.AARCH64,
        "rgw",
        (
            "s3.access",
            "s3.objects",
        ),
        defines=("AHEAD_MS=-600000",),
    ),
    Planted(
        "client_day_behind",
        "clock_ahead.c",
        Arch.AARCH64,
        "clients",
        ("baseline.clocks",),
        defines=("AHEAD_MS=-86400000",),
    ),
    Planted("slow_disk", "slow_disk.c", Arch.X86_64, "osd", ("baseline.growth",)),
    Planted("read_flips", "read_flips.c", Arch.X86_64, "osd", ("baseline.settings",)),
    Planted(
        "write_lost",
        "write_elsewhere.c",
        Arch.X86_64,
        "osd",
        ("interop.scrub-clean[pool=replicated]",),
        defines=("ELSEWHERE=(5LL << 30)",),
    ),
    Planted(
        "write_misdirected",
        "write_elsewhere.c",
        Arch.X86_64,
        "osd",
        ("interop.scrub-clean[pool=replicated]",),
        defines=("ELSEWHERE=4096",),
    ),
    Planted("discard_none", "discard_none.c", Arch.AARCH64, "clients", ("interop.rbd[writer=aarch64,reader=x86_64]",)),
    Planted("csum_none", "", Arch.AARCH64, "osd", ("baseline.settings",), options=("--bluestore_csum_type=none",)),
    Planted("wire_unchecked", "", Arch.AARCH64, "daemons", ("baseline.settings",), options=("--ms_crc_data=false",)),
    Planted(
        "weight_light", "", Arch.AARCH64, "osd", ("baseline.settings",), options=("--osd_crush_initial_weight=0.001",)
    ),
    Planted("clock_half", "clock_ahead.c", Arch.AARCH64, "osd", ("baseline.clocks",), defines=("AHEAD_MS=500",)),
    Planted("lossy_link", "lossy_link.c", Arch.AARCH64, "both", ("baseline.network-mtu",)),
    Planted(
        "usage_none",
        "usage_none.c",
        Arch.X86_64,
        "osd",
        ("baseline.growth",),
        defines=(
            f'SYMBOL="_ZN9BlueStore6statfsEP14store_statfs_tPSt3mapI{STRING}S8_St4lessIS8_ESaISt4pairIKS8_S8_EEE"',
        ),
    ),
    Planted(
        "blocklist_ignored",
        "returns.c",
        Arch.X86_64,
        "osd",
        ("interop.keys-client[client=x86_64]",),
        defines=returns("_ZNK6OSDMap14is_blocklistedERK13entity_addr_tPN4ceph6common11CephContextE", 0),
    ),
    Planted(
        "bucket_quota_ignored",
        "returns.c",
        Arch.X86_64,
        "rgw",
        ("s3.space",),
        defines=returns(
            "_ZN8RGWRados11check_quotaEPK18DoutPrefixProviderRK8rgw_userR10rgw_bucketR8RGWQuotam14optional_yieldb", 0
        ),
    ),
    Planted(
        "list_loses",
        "list_loses.c",
        Arch.X86_64,
        "rgw",
        ("s3.buckets",),
        defines=(
            'SYMBOL="_ZN8RGWRados6Bucket4List20list_objects_orderedEPK18DoutPrefixProviderlPSt6vectorI20'
            f"rgw_bucket_dir_entrySaIS6_EEPSt3mapI{STRING}bSt4lessISG_ESaISt4pairIKSG_bEEEPb"
            '14optional_yield"',
            "START_BYTES=13",
            "ENTRY_BYTES=456",
        ),
    ),
    Planted("etag_parts", "etag_parts.c", Arch.AARCH64, "rgw", ("s3.multipart",)),
    Planted(
        "lock_none",
        "call_skipped.c",
        Arch.X86_64,
        "clients",
        ("interop.rbd[writer=x86_64,reader=aarch64]",),
        defines=skips("librbd.so.1", "rbd_lock_acquire"),
    ),
    Planted(
        "rbd_flush_once",
        "call_skipped.c",
        Arch.X86_64,
        "clients",
        ("interop.rbd[writer=x86_64,reader=aarch64]",),
        defines=skips("librbd.so.1", "rbd_flush", right=1),
    ),
)
