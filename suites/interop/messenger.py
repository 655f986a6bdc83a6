"""Encrypted and compressed connections between architectures."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.base.errors import try_all
from cephlab.lab.ceph.status import Status
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import UNKNOWN_RELEASE
from cephlab.lab.telemetry.counters import of_osds
from cephlab.suites.expected import DEAD_COUNT
from cephlab.suites.interop.compression import COMPRESSION, wordy
from cephlab.suites.interop.matrix import observe_primaries
from cephlab.suites.interop.mirror import Mirror

OBJECT_BYTES = 1 << 20
OBJECTS = 4
PG_NUM = 4
CONFIG_S = 30.0

SECURE = {"ms_cluster_mode": "secure", "ms_service_mode": "secure", "ms_client_mode": "secure"}
COMPRESSED = {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": "1024"}
COMPRESSIBLE_TO = 4
"""Least factor by which compression must shrink repeating content. Any algorithm shrinks it far more."""

EXPECTED = {
    **DEAD_COUNT,
    r"map e\d+ wrongly marked me down": "The scenario marks that OSD down, so that it reconnects.",
    r"log_channel\(cluster\) log \[WRN\] : (Monitor daemon marked osd|Health check (failed|update): .*DOWN)": (
        "The scenario marks that OSD down, so that it reconnects."
    ),
}
RECEIVED = "msgr_recv_bytes"
ENCRYPTED = "msgr_recv_encrypted_bytes"
SINCE = dict.fromkeys(
    ("reef", "tentacle", UNKNOWN_RELEASE), "Pacific neither compresses on the wire nor counts what it encrypts there"
)
"""Releases that have what these scenarios need, with the reason why other releases are skipped."""


def secure(stage: Stage, client: Arch) -> None:
    """Encrypt every new connection; write from one architecture to primaries on the other."""
    cluster = stage.cluster
    with (
        rewired(cluster, SECURE),
        pools.pool(cluster, "secret", pg_num=PG_NUM) as pool,
        pools.primary_on(cluster, client.other, pool),
        closing(cluster.new_client(cluster.host_with(client).name, options=SECURE)) as writer,
    ):
        observe_primaries(stage, pool, client.other)
        mirror = Mirror(writer, pool)
        before = counters(cluster)
        for number in range(OBJECTS):
            mirror.full(f"o{number}", stage.rng.randbytes(OBJECT_BYTES))
        after = counters(cluster)
        for arch in Arch:
            # Each architecture receives every object from the other at least once: from the client or as a replica.
            received = total(after, cluster.osd_ids(arch), ENCRYPTED) - total(before, cluster.osd_ids(arch), ENCRYPTED)
            stage.recorder.witness(f"bytes that {arch} received encrypted", got=received, least=OBJECTS * OBJECT_BYTES)
        mirror.verify(writer, stage.recorder, "read over encrypted connections")
        mirror.verify(cluster.client_for(client.other), stage.recorder, f"read by {client.other}")


def compressed(stage: Stage, algorithm: str) -> None:
    """Compress new connections between OSDs with one algorithm; each architecture sends, the other is read from."""
    cluster = stage.cluster
    options = {**COMPRESSED, "ms_osd_compression_algorithm": algorithm}
    stored = {"compression_mode": "force", "compression_algorithm": algorithm}
    with pools.pool(cluster, "small", pg_num=PG_NUM, options=stored) as pool, ExitStack() as rewiring:
        mirror, sent = Mirror(cluster.client, pool), None
        # Let every BlueStore load the compressor first: connections that load it at the same time sometimes crash an
        # OSD (docs/track-record.md).
        mirror.full("first", wordy(stage.rng, OBJECT_BYTES))
        rewiring.enter_context(rewired(cluster, options))
        for primary in (*Arch, None):
            # The architectures lead in turn. Before one sends, read from it what it received compressed.
            reader = primary or next(iter(Arch))
            with pools.primary_on(cluster, reader, pool):
                observe_primaries(stage, pool, reader)
                if sent is not None:
                    mirror.verify(
                        cluster.client, stage.recorder, f"read from {reader}, sent by {sent} with {algorithm}"
                    )
                if primary is not None:
                    send(stage, mirror, primary, algorithm)
            sent = primary


def send(stage: Stage, mirror: Mirror, primary: Arch, algorithm: str) -> None:
    """Write repeating content, and count the bytes that its replicas take on the wire."""
    cluster = stage.cluster
    copies = cluster.osd_ids(primary.other)
    before = counters(cluster)
    for number in range(OBJECTS):
        mirror.full(f"{primary}-{number}", stage.rng.randbytes(1024) * (OBJECT_BYTES // 1024))
    # Connections of clients are never compressed, so the counters show what primaries send to the other architecture.
    received = total(counters(cluster), copies, RECEIVED) - total(before, copies, RECEIVED)
    whole = OBJECTS * OBJECT_BYTES * len(copies)
    title = f"bytes of {whole} that compression with {algorithm} saved on the way to {primary.other}"
    stage.recorder.witness(title, got=whole - received, least=whole * (1 - 1 / COMPRESSIBLE_TO))


@contextmanager
def rewired(cluster: Cluster, options: Mapping[str, str]) -> Iterator[None]:
    """Set options inside the block, and reconnect the OSDs of different architectures so that the options apply."""
    try:
        for key, value in options.items():
            cluster.client.mon("config set", who="global", name=key, value=value)
        for osd in cluster.osd_ids():
            await_option(cluster, f"osd.{osd}", options)
        reconnect(cluster)
        yield
    finally:
        removals = [partial(cluster.client.mon, "config rm", who="global", name=key) for key in options]
        try_all([*removals, partial(reconnect, cluster)])


def await_option(cluster: Cluster, daemon: str, options: Mapping[str, str]) -> None:
    """Wait until a daemon has got options from the monitors."""
    clock.wait(
        lambda: {key: str(cluster.client.tell(daemon, "config get", var=key)[key]) for key in options},
        lambda now: now == dict(options),
        what=f"{daemon} with {dict(options)}",
        timeout_s=CONFIG_S * cluster.patience,
    )


def reconnect(cluster: Cluster) -> None:
    """Let the OSDs of the rarer architecture reconnect, since every connection between the two ends at one of them.

    A running OSD that the map shows as down binds new ports and boots again within a second.
    """
    osds = cluster.osd_ids(min(Arch, key=lambda arch: len(cluster.osd_ids(arch))))
    before = booted(cluster, osds)
    cluster.client.mon("osd down", ids=[str(osd) for osd in osds])

    def again(status: Status) -> bool:
        now = booted(cluster, osds)
        return status.all_up and all(now[osd] > before[osd] for osd in osds)

    cluster.wait(again, what=f"{osds} up again", timeout_s=CONFIG_S)
    pools.wait_clean(cluster)


def booted(cluster: Cluster, osds: Sequence[int]) -> dict[int, int]:
    """The map epoch at which each OSD last came up; 0 while it is down."""
    osd_map = cluster.client.mon("osd dump")["osds"]
    return {int(entry["osd"]): int(entry["up_from"]) if entry["up"] else 0 for entry in osd_map if entry["osd"] in osds}


def counters(cluster: Cluster) -> dict[int, Counter[str]]:
    """The messenger counters of each OSD, summed over its threads."""
    dumps = of_osds(cluster).items()
    return {osd: Counter({name: int(dump[f"msgr.{name}"]) for name in (RECEIVED, ENCRYPTED)}) for osd, dump in dumps}


def total(counted: Mapping[int, Counter[str]], osds: Sequence[int], counter: str) -> int:
    return sum(counted[osd][counter] for osd in osds)


def secure_scenario(client: Arch) -> Scenario:
    primary = client.other
    return Scenario(
        name=f"interop.messenger-secure[client={client},primary={primary}]",
        goal="Each architecture decrypts what the other encrypts on the wire.",
        method=f"Requires msgr2's secure mode, writes from {client} to primaries on {primary}, reads on both.",
        run=partial(secure, client=client),
        check="witnessed",
        expects=EXPECTED,
        only_releases=SINCE,
    )


def compressed_scenario(algorithm: str) -> Scenario:
    return Scenario(
        name=f"interop.messenger-compressed[algorithm={algorithm}]",
        goal=f"OSDs of each architecture decompress what those of the other compress on the wire with {algorithm}.",
        method="Forces compression between OSDs, writes through primaries of each, reads the replicas on the other.",
        run=partial(compressed, algorithm=algorithm),
        check="witnessed",
        expects=EXPECTED,
        only_releases=SINCE,
    )


SCENARIOS: tuple[Scenario, ...] = (
    *(secure_scenario(arch) for arch in Arch),
    *(compressed_scenario(algorithm) for algorithm in COMPRESSION),
)
