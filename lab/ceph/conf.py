"""ceph.conf for a small lab: the options that differ from Ceph's defaults, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.providers.host import Host

MIB = 1 << 20
GIB = 1 << 30

UNUSED_MGR_MODULES = (
    "alerts cephadm cli_api dashboard diskprediction_local feedback hello influx insights iostat k8sevents localpool "
    "mds_autoscaler mirroring nfs osd_perf_query osd_support restful rgw rook selftest smb snap_schedule stats "
    "telegraf test_orchestrator zabbix"
)
"""Loading a manager's modules costs seconds of CPU. The modules that Ceph insists on are not in this list."""


@dataclass(frozen=True)
class Sizing:
    """Memory per daemon in bytes and threads, chosen from the machine, and why in one sentence."""

    osd_memory_target: int
    osd_cache_bytes: int
    shards: int
    reason: str


def choose_sizing(memory_bytes: int, cores: int, osds: int, *, emulated: int = 0) -> Sizing:
    """Fit the OSDs into a quarter of the machine's memory.

    memory_bytes, cores: of the machine that carries the lab; osds: all of them; emulated: those under an emulator.
    Ceph refuses an osd_memory_target below 896 MiB (osd_memory_target_min in its options), so on a small
    machine the cache shrinks and the target stays.
    """
    share = memory_bytes // 4 // max(1, osds)
    target = min(4 * GIB, max(896 * MIB, share))
    cache = 64 * MIB if share < 2 * GIB else 128 * MIB
    shards = 1 if cores <= 4 else 2
    return Sizing(
        osd_memory_target=target,
        osd_cache_bytes=cache,
        shards=shards,
        reason=(
            f"{osds} OSDs ({emulated} emulated) on {cores} cores and {memory_bytes / GIB:.0f} GiB: "
            f"osd_memory_target {target / GIB:.2f} GiB, cache {cache // MIB} MiB, {shards} shard(s) each"
        ),
    )


def cluster_options(sizing: Sizing, *, hosts: int, patience: float) -> dict[str, str]:
    """Options that every daemon shares. hosts: those with OSDs; patience: factor for emulated daemons."""
    return {**safe_options(hosts), **_quick_options(patience), **_sized_options(sizing)}


def safe_options(hosts: int) -> dict[str, str]:
    """What any lab of this size needs to become healthy, at Ceph's own pace."""
    size = max(1, min(3, hosts))
    return {
        # What a careful administrator sets.
        "auth_allow_insecure_global_id_reclaim": "false",
        "ms_bind_msgr1": "false",
        "mon_allow_pool_delete": "true",
        # A lab lives in a corner of somebody's disk: the monitor's own free-space warning is about that disk.
        "mon_data_avail_warn": "2",
        "mon_data_avail_crit": "1",
        # And one slow write would be a warning for a day, in releases that count them (tentacle; 86400 s).
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
    """Decisions in tenths of seconds instead of seconds: nothing else uses these daemons."""
    return {
        "paxos_propose_interval": "0.1",
        "paxos_min_wait": "0.01",
        "mon_tick_interval": "1",
        "mgr_tick_period": "1",
        "mgr_stats_period": "1",
        "mon_mgr_digest_period": "1",
        # Under an emulator Ceph's own defaults are short enough to matter and long enough to hold.
        "mon_election_timeout": "5" if patience > 1 else "2",
        "osd_heartbeat_interval": "2",
        "osd_heartbeat_grace": "20" if patience > 1 else "10",
        # In milliseconds; 0 is a twentieth of the grace. How soon an emulated daemon answers is no question of health.
        "mon_warn_on_slow_ping_time": "20000" if patience > 1 else "0",
        "mon_osd_min_down_reporters": "1",
        "mon_osd_down_out_interval": "600",
        "osd_mon_report_interval": "1",
        # Pacific leaves it to the peers to notice that an OSD was stopped; the last one has none.
        "osd_fast_shutdown_notify_mon": "true",
        # An OSD that is called down more than 5 times in 10 minutes ends itself; a lab does that on purpose.
        "osd_max_markdown_count": "1000",
        # A scrub that was asked for otherwise waits until a roll of dice allows it: 4 PGs took 8 to 16 s.
        "osd_scrub_backoff_ratio": "0",
        # The store was made a moment ago; checking it doubles the CPU of an emulated mkfs (measured: 6.8 to 4.2 s).
        "bluestore_fsck_on_mkfs": "false",
        # Measuring the disk at first start takes seconds and the answer is noise here.
        "osd_mclock_skip_benchmark": "true",
        # A wrong answer must be an error within a test's patience, never a hang.
        "rados_mon_op_timeout": "60",
        "rados_osd_op_timeout": "120",
    }


def _sized_options(sizing: Sizing) -> dict[str, str]:
    return {
        "osd_memory_target": str(sizing.osd_memory_target),
        "bluestore_cache_autotune": "false",
        "bluestore_cache_size": str(sizing.osd_cache_bytes),
        "osd_op_num_shards": str(sizing.shards),
        "osd_op_num_threads_per_shard": "2",
        "osd_max_pg_log_entries": "2000",
        "ms_async_op_threads": "2",
    }


def host_options(host: Host, identity: str | None = None, *, pulled: bool = False) -> dict[str, str]:
    """Options that differ from host to host: its address, its directories, where its image's plugins are.

    identity: the name that Ceph knows the host by, where it took the place of another. pulled: whether its image was
    not built here: its Ceph knows best where its plugins are, as another distribution's has them elsewhere.
    """
    name = identity or host.name
    base = host.directory
    return {
        **({} if pulled else image_options(host)),
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
    """Where the plugins of an image that was built here are.

    Also where that image is the host's own root: Debian's own settings are relative to it, and a daemon is not.
    """
    library = host.root / "usr/lib" / host.arch.triplet
    return {
        "plugin_dir": str(library / "ceph"),
        "erasure_code_dir": str(library / "ceph/erasure-code"),
        "osd_class_dir": str(library / "rados-classes"),
        "mgr_module_path": str(host.root / "usr/share/ceph/mgr"),
    }


def render_client(fsid: str, mon_addresses: Mapping[str, str], keyring: str) -> bytes:
    """A ceph.conf for a client outside the lab's hosts. keyring: path of the administrator's."""
    hosts = ",".join(f"[v2:{address}:3300]" for address in mon_addresses.values())
    lines = ["[global]", f"fsid = {fsid}", f"mon_host = {hosts}", f"keyring = {keyring}"]
    return ("\n".join(lines) + "\n").encode()


def conf_path(host: Host) -> PurePosixPath:
    """Where a host's ceph.conf is."""
    return host.directory / "ceph.conf"


def socket_path(host: Host, name: str) -> PurePosixPath:
    """Where the admin socket of a daemon, by its name as in `osd.0`, is."""
    return host.directory / "run" / f"{name}.asok"


Sections = Mapping[str, Mapping[str, str]]
"""Section of a ceph.conf -> its options."""


def render(fsid: str, mon_addresses: Mapping[str, str], options: Mapping[str, str], sections: Sections) -> bytes:
    """A ceph.conf. mon_addresses: name -> IPv4 address; sections: those of `global` win over options."""
    lines = [
        "[global]",
        f"fsid = {fsid}",
        f"mon_host = {','.join(f'[v2:{address}:3300]' for address in mon_addresses.values())}",
        f"mon_initial_members = {','.join(mon_addresses)}",
    ]
    lines += [f"{key} = {value}" for key, value in {**options, **sections.get("global", {})}.items()]
    # A client's own keyring and log must not be a daemon's: daemons find theirs in their data directory.
    lines += ["[mon]", "keyring = $mon_data/keyring"]
    lines += ["[osd]", "keyring = $osd_data/keyring"]
    lines += ["[mgr]", "keyring = $mgr_data/keyring"]
    lines += ["[mds]", "keyring = $mds_data/keyring"]
    lines += ["[client]", "admin_socket =", "log_file ="]
    for name, own in sections.items():
        if name != "global" and own:
            lines += [f"[{name}]", *(f"{key} = {value}" for key, value in own.items())]
    return ("\n".join(lines) + "\n").encode()
