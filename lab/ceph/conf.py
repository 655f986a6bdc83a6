"""ceph.conf for a small lab: options that differ from Ceph's defaults, each with its reason."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.base.numbers import how_many
from cephlab.lab.providers.host import Host, has_own_kernel
from cephlab.lab.spec.clusterspec import GIB, MIB

MON_PORT = 3300
"""Port of messenger v2."""
UNUSED_MGR_MODULES = (
    "alerts cephadm cli_api dashboard diskprediction_local feedback hello influx insights iostat k8sevents localpool "
    "mds_autoscaler mirroring nfs osd_perf_query osd_support restful rgw rook selftest smb snap_schedule stats "
    "telegraf test_orchestrator zabbix"
)
"""Not loaded, because loading manager modules costs seconds of CPU. Ceph's always-on modules are not in this list."""


@dataclass(frozen=True)
class Sizing:
    """Memory in bytes and shards of each OSD, chosen for the machine. reason: why, in one sentence."""

    osd_memory_target: int
    osd_cache_bytes: int
    shards: int
    reason: str


def choose_sizing(memory_bytes: int, cores: int, osds: int, *, emulated: int = 0) -> Sizing:
    """Fit the OSDs into a quarter of the machine's memory.

    memory_bytes, cores: of the lab's machine; osds: number of all OSDs; emulated: number of emulated ones.
    Ceph refuses an osd_memory_target below 896 MiB (osd_memory_target_min in its options), so on a small machine only
    the cache shrinks.
    """
    share = memory_bytes // 4 // max(1, osds)
    target = min(4 * GIB, max(896 * MIB, share))
    cache = 64 * MIB if share < 2 * GIB else 128 * MIB
    shards = 1 if cores <= 4 else 2
    slow = f" ({emulated} emulated)" if emulated else ""
    return Sizing(
        osd_memory_target=target,
        osd_cache_bytes=cache,
        shards=shards,
        reason=(
            f"{how_many(osds, 'OSD')}{slow} on {how_many(cores, 'core')} and "
            f"{memory_bytes / GIB:.0f} GiB: osd_memory_target {target / GIB:.2f} GiB, cache {cache // MIB} MiB, "
            f"{how_many(shards, 'shard')} each"
        ),
    )


def cluster_options(sizing: Sizing, *, hosts: int, patience: float) -> dict[str, str]:
    """Options that every daemon shares. hosts: number of hosts with OSDs; patience: factor for emulated daemons."""
    sized = {
        "osd_memory_target": str(sizing.osd_memory_target),
        "bluestore_cache_autotune": "false",
        "bluestore_cache_size": str(sizing.osd_cache_bytes),
        "osd_op_num_shards": str(sizing.shards),
        "osd_op_num_threads_per_shard": "2",
        "osd_max_pg_log_entries": "2000",
        "ms_async_op_threads": "2",
    }
    return {**safe_options(hosts), **_quick_options(patience), **sized}


def safe_options(hosts: int) -> dict[str, str]:
    """Options that a lab of this size needs to become healthy. They do not change Ceph's timing."""
    size = max(1, min(3, hosts))
    return {
        # What a careful administrator sets.
        "auth_allow_insecure_global_id_reclaim": "false",
        "ms_bind_msgr1": "false",
        "mon_allow_pool_delete": "true",
        # The lab shares the user's disk, and the monitor would warn about that disk's free space.
        "mon_data_avail_warn": "2",
        "mon_data_avail_crit": "1",
        # In releases that count slow writes (tentacle), one of them would raise a warning for a day (86400 s).
        "bluestore_slow_ops_warn_lifetime": "10",
        # Pools sized to the lab.
        "osd_pool_default_size": str(size),
        "osd_pool_default_min_size": str(max(1, size - 1)),
        "osd_pool_default_pg_num": "16",
        "osd_pool_default_pgp_num": "16",
        "osd_pool_default_pg_autoscale_mode": "off",
        "mon_max_pg_per_osd": "2000",
        "mon_warn_on_pool_no_redundancy": "false",
        "mgr_disabled_modules": UNUSED_MGR_MODULES.replace(" ", ","),
        "mgr_initial_modules": "prometheus",
        "log_flush_on_exit": "true",
        "log_max_recent": "500",
    }


def _quick_options(patience: float) -> dict[str, str]:
    """Options that make Ceph decide in tenths of seconds instead of seconds."""
    return {
        "paxos_propose_interval": "0.1",
        "paxos_min_wait": "0.01",
        "mon_tick_interval": "1",
        "mgr_tick_period": "1",
        # A metadata server flushes its log at a tick. A client that takes another one's capabilities waits for that.
        "mds_tick_interval": "1",
        # While a quorum is younger than this, monitors replace no dead metadata server; Ceph's default is 60 s. A third
        # more than mds_beacon_grace, which is as long as a sound server may be silent.
        "mds_beacon_mon_down_grace": "20",
        "mgr_stats_period": "1",
        "mon_mgr_digest_period": "1",
        # Seconds that the first manager may take to load its modules before MGR_DOWN. In a guest of a busy machine
        # without KVM it took 290 s, and Ceph allows 120. If no manager ever comes, the wait for HEALTH_OK fails.
        "mon_mgr_mkfs_grace": "1200",
        # Under an emulator these are Ceph's own defaults.
        "mon_election_timeout": "5" if patience > 1 else "2",
        # OSDs without work learn of a new map with their peers' heartbeats.
        "osd_heartbeat_interval": "1",
        "osd_heartbeat_grace": "20" if patience > 1 else "10",
        # Milliseconds: as long as the heartbeat grace. The default, a twentieth of the grace, is too short for a sound
        # OSD that is emulated or in a guest of a busy machine (0.75 s on average over a minute).
        "mon_warn_on_slow_ping_time": "20000" if patience > 1 else "10000",
        "mon_osd_min_down_reporters": "1",
        "mon_osd_down_out_interval": "600",
        "osd_mon_report_interval": "1",
        # In Pacific only peers notice that an OSD was stopped, and the last OSD has no peers.
        "osd_fast_shutdown_notify_mon": "true",
        # An OSD that was marked down more than 5 times in 10 minutes ends itself. The lab marks OSDs down on purpose.
        "osd_max_markdown_count": "1000",
        # Otherwise a requested scrub waits for a random decision: 4 PGs took 8 to 16 s.
        "osd_scrub_backoff_ratio": "0",
        # With a check of the new store, an emulated mkfs takes 6.8 s of CPU, without it 4.2 s (measured).
        "bluestore_fsck_on_mkfs": "false",
        # Measuring the disk at the first start takes seconds, and the result is noise here.
        "osd_mclock_skip_benchmark": "true",
        # Ceph takes disks that are files for rotating ones. Pacific then pauses 0.1 s after each object it recovers.
        "osd_recovery_sleep_hdd": "0",
        **STARTING_OSD_OPTIONS,
        # Seconds. At Ceph's default of 0.05 an idle OSD wakes 20 times a second to size its caches.
        "bluestore_cache_trim_interval": "0.25",
        # Otherwise an OSD maps its whole disk into memory to see whether that is persistent memory, six times while it
        # starts. For an emulated one that takes a quarter of a second of CPU each time.
        "bdev_type": "aio",
        # A hang must become an error before the test times out. Under an emulator tests wait longer: next to other
        # emulated machines, a monitor in one took more than 60 s to remove a pool.
        "rados_mon_op_timeout": f"{60 * patience:g}",
        "rados_osd_op_timeout": f"{120 * patience:g}",
    }


STARTING_OSD_OPTIONS = {
    # Milliseconds that closing a disk may wait for the thread that reaps its writes. An OSD closes its disk five times
    # while it starts, and takes Ceph's default of 250 ms each time.
    "bdev_aio_poll_ms": "25",
}
"""Options that make an OSD start sooner."""

STARTED_OSD_OPTIONS = {
    # Ceph's default. An idle OSD wakes twice in this time; with the value for its start, 80 times a second.
    "bdev_aio_poll_ms": "250",
}
"""Values of those options for the OSDs of a cluster that became healthy. An OSD that restarts has the others."""

_SLOW_MACHINE = {
    # Seconds until a client tries another monitor and logs an error that this one did not answer. In three guests of a
    # busy machine without KVM, a monitor twice took more than Ceph's default of 3 s.
    "mon_client_hunt_interval": "15",
}
"""Options of a host that is a fully emulated machine, kernel included."""

_ONE_MONITOR = {
    # A client that gets no answer to its keepalives switches to another monitor, but here there is no other. An answer
    # that comes at once counts as no answer (suites/defects/known.toml, `keepalive-wraps`). A manager then notifies its
    # modules of options that did not change, and `prometheus` restarts a server that is still starting, with errors on
    # its output.
    "mon_client_ping_timeout": "0",
}
"""Options of the managers of a cluster with one monitor."""


def host_options(host: Host, identity: str | None = None, *, pulled: bool) -> dict[str, str]:
    """Options of one host: its address, its directories, and the plugin paths of its image.

    identity: the host's name in Ceph, if it replaced another host. pulled: whether its image was pulled, not built
    here. A pulled image keeps its own plugin paths, because they differ between distributions.
    """
    name = identity or host.name
    base = host.directory
    return {
        **({} if pulled else image_options(host)),
        **(_SLOW_MACHINE if host.emulated and has_own_kernel(host) else {}),
        "public_addr": host.address,
        "cluster_addr": host.address,
        "ms_bind_before_connect": "true",
        "crush_location": f"root=default host={name}",
        "host": name,
        "run_dir": str(base / "run"),
        "admin_socket": str(base / "run/$name.asok"),
        "log_file": str(base / "log/$name.log"),
        "log_to_stderr": "false",
        "err_to_stderr": "true",
        "crash_dir": str(base / "crash"),
        "keyring": str(base / "keyring"),
        "mgr_data": str(base / "mgr.$id"),
        "mon_data": str(base / "mon.$id"),
        "osd_data": str(base / "osd.$id"),
        "mds_data": str(base / "mds.$id"),
    }


def image_options(host: Host) -> dict[str, str]:
    """Plugin paths of an image that was built here.

    They are needed even if the image is the host's root: Debian's own settings are relative to the root, but a daemon
    does not resolve them from there.
    """
    library = host.root / "usr/lib" / host.arch.triplet
    return {
        "plugin_dir": str(library / "ceph"),
        "erasure_code_dir": str(library / "ceph/erasure-code"),
        "osd_class_dir": str(library / "rados-classes"),
        "mgr_module_path": str(host.root / "usr/share/ceph/mgr"),
    }


def render_client(fsid: str, mon_addresses: Mapping[str, str], keyring: str) -> bytes:
    """A ceph.conf for a client outside the lab's hosts. keyring: path of the administrator's keyring."""
    return _lines([*_global(fsid, mon_addresses), f"keyring = {keyring}"])


def _global(fsid: str, mon_addresses: Mapping[str, str]) -> list[str]:
    return ["[global]", f"fsid = {fsid}", f"mon_host = {mon_host(mon_addresses.values())}"]


def mon_host(addresses: Iterable[str]) -> str:
    """Monitor addresses in the format of Ceph's `mon_host`."""
    return ",".join(f"[v2:{address}:{MON_PORT}]" for address in addresses)


def _lines(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def conf_path(host: Host) -> PurePosixPath:
    """Path of a host's ceph.conf."""
    return host.directory / "ceph.conf"


def socket_path(host: Host, name: str) -> PurePosixPath:
    """Path of a daemon's admin socket. name: as in `osd.0`."""
    return host.directory / "run" / f"{name}.asok"


Sections = Mapping[str, Mapping[str, str]]
"""Section of a ceph.conf -> its options."""


def render(fsid: str, mon_addresses: Mapping[str, str], options: Mapping[str, str], sections: Sections) -> bytes:
    """A ceph.conf. mon_addresses: name -> IPv4 address; sections: section `global` overrides options."""
    lines = [*_global(fsid, mon_addresses), f"mon_initial_members = {','.join(mon_addresses)}"]
    lines += [f"{key} = {value}" for key, value in {**options, **sections.get("global", {})}.items()]
    # A client must not use a daemon's keyring or log. Daemons find their keyring in their data directory.
    for kind in ("mon", "osd", "mgr", "mds"):
        lines += [f"[{kind}]", f"keyring = ${kind}_data/keyring"]
        if kind == "mgr" and len(mon_addresses) == 1:
            lines += [f"{key} = {value}" for key, value in _ONE_MONITOR.items() if key not in options]
    lines += ["[client]", "admin_socket =", "log_file ="]
    for name, own in sections.items():
        if name != "global" and own:
            lines += [f"[{name}]", *(f"{key} = {value}" for key, value in own.items())]
    return _lines(lines)
