"""New cephx keys: they work across architectures, Ceph refuses the old ones, and they allow no more than their caps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from cephlab.lab.ceph import conf, keyring
from cephlab.lab.ceph.client import CephCommandFailed, RadosClient, RadosError
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.suites.expected import DEAD_COUNT, OSD_STOPPED
from cephlab.suites.interop.matrix import led_by_one, operations
from cephlab.suites.interop.mirror import Mirror

OBJECT_BYTES = 64 << 10
PG_NUM = 4
CONNECT_S = 20
LEAST_LED = 2  # one write and one read of an object
REFUSALS = {1, 13, 108}
"""EPERM and EACCES: errors for a wrong key and for a deed beyond the caps. ESHUTDOWN: for a client on the blocklist."""
MISSING = 2
PREFIX, OPEN = "under-", "open"
CAPS = {"mon": "allow r", "osd": f"allow rw pool=keys object_prefix {PREFIX}, allow r pool=keys namespace={OPEN}"}
NAMES = 12
"""Objects for each deed, so that OSDs of either architecture are asked."""

EXPECTED = {
    **DEAD_COUNT,
    **OSD_STOPPED,
    r"cephx server .*(handle_request failed to decrypt|unexpected key)": "The scenario tries the old key.",
}


def client_key(stage: Stage, client: Arch) -> None:
    """Write with a client's old key and with a new one, do what its caps forbid, then try the old key again."""
    cluster = stage.cluster
    sample = own(cluster).deployment.admin.key
    old, new = (keyring.Entity("client.interop", keyring.new_key(sample), CAPS) for _ in range(2))
    with pools.pool(cluster, "keys", pg_num=PG_NUM) as pool:
        mirror = Mirror(cluster.client, pool)
        try:
            for which, entity in (("old", old), ("new", new)):
                cluster.client.command("mon", "auth import", payload=keyring.render([entity]))
                with identified(cluster, client, entity.name, keyring.render([entity])) as mirror.client:
                    mirror.full(f"{PREFIX}{which}", stage.rng.randbytes(OBJECT_BYTES))
                    if entity is new:
                        observe_bounds(stage, mirror.client, pool)
                        observe_fenced(stage, mirror.client, pool)
            mirror.verify(cluster.client_for(client.other), stage.recorder, f"read by {client.other}")
            answer = admitted(cluster, client, old.name, keyring.render([old]))
            stage.recorder.observe("the old key after the change", got=answer, wanted="refused")
            cluster.client.mon("auth rm", entity=new.name)
            answer = admitted(cluster, host_arch(), new.name, keyring.render([new]))
            stage.recorder.observe("the new key after its removal", got=answer, wanted="refused")
        finally:
            cluster.client.mon("auth rm", entity=old.name)


def observe_bounds(stage: Stage, client: RadosClient, pool: str) -> None:
    """Observe the answers to a client with CAPS: to what they allow, and to what they do not."""
    readable, closed = client.within(namespace=OPEN), client.within(namespace="closed")
    deeds: dict[str, tuple[str, Callable[[str], object]]] = {
        "reads in the namespace that it may read": ("allowed", lambda name: readable.read(pool, name, 1)),
        "writes in that namespace": ("refused", lambda name: readable.write_full(pool, name, b"x")),
        "reads in another namespace": ("refused", lambda name: closed.read(pool, name, 1)),
        "writes to objects without its prefix": ("refused", lambda name: client.write_full(pool, name, b"x")),
        "changes through a monitor": (
            "refused",
            lambda name: client.command("mon", "config-key set", key=f"cephlab/{name}", val="x"),
        ),
    }
    for deed, (wanted, do) in deeds.items():
        answers = [answer_to(partial(do, f"object-{number}")) for number in range(NAMES)]
        stage.recorder.observe(f"{deed}: answers", got=sorted(set(answers)), wanted=[wanted], of=len(answers))


def observe_fenced(stage: Stage, client: RadosClient, pool: str) -> None:
    """Observe that every OSD refuses a client that is blocklisted, as one is whose lock another client breaks."""
    cluster = stage.cluster
    address = client.call("about")["address"]
    cluster.client.mon("osd blocklist", blocklistop="add", addr=address)
    try:
        pools.wait_map_in_use(cluster, pool)
        answers = [
            answer_to(partial(client.write_full, pool, f"{PREFIX}fenced{number}", b"x")) for number in range(NAMES)
        ]
    finally:
        cluster.client.mon("osd blocklist", blocklistop="rm", addr=address)
    stage.recorder.observe("writes once it is blocklisted: answers", got=answers, wanted=["refused"] * NAMES)


def answer_to(deed: Callable[[], object]) -> str:
    """Ceph's answer to a deed: `allowed` or `refused`. That an object is missing is no refusal. Raises other errors."""
    try:
        deed()
    except RadosError as error:
        if error.errno not in {*REFUSALS, MISSING}:
            raise
        return "allowed" if error.errno == MISSING else "refused"
    except CephCommandFailed as error:
        if -error.code not in REFUSALS:
            raise
        return "refused"
    return "allowed"


def osd_key(stage: Stage, on: Arch) -> None:
    """Give an OSD a new key and restart it, try the old key, then write and read through the OSD."""
    cluster = own(stage.cluster)
    osd = cluster.osd_ids(on)[0]
    name = f"osd.{osd}"
    daemon = cluster.daemon(name)
    store = daemon.host.directory / name / "keyring"
    entity = cluster.deployer.new_entity(cluster.deployment, name)
    old, new = daemon.host.read(store), keyring.render([entity])
    with pools.pool(cluster, "keys", pg_num=PG_NUM) as pool:
        cluster.stop(name)
        cluster.wait(lambda status: not status.all_up, what=f"{name} down")
        cluster.client.command("mon", "auth import", payload=new)
        daemon.host.push(new, store, mode=0o600)
        cluster.start(name)
        pools.wait_clean(cluster)
        answer = admitted(cluster, on, name, old)
        stage.recorder.observe(f"the old key of {name} after the change", got=answer, wanted="refused")
        mirror = Mirror(cluster.client_for(on.other), pool)
        with led_by_one(cluster, osd, (pool,)):
            before = operations(cluster)[osd]
            mirror.full("object", stage.rng.randbytes(OBJECT_BYTES))
            mirror.verify(mirror.client, stage.recorder, f"through {name} under its new key")
            led = operations(cluster)[osd] - before
        stage.recorder.witness(f"operations that {name} led under its new key", got=led, least=LEAST_LED)


def admitted(cluster: Cluster, arch: Arch, name: str, key: bytes) -> str:
    """The monitors' answer to an entity with this key: `admitted` or `refused`. Raises other errors."""
    try:
        with identified(cluster, arch, name, key) as client:
            client.call("about", connect_s=int(CONNECT_S * cluster.patience))
    except RadosError as error:
        if error.errno in REFUSALS:
            return "refused"
        raise
    return "admitted"


@contextmanager
def identified(cluster: Cluster, arch: Arch, name: str, key: bytes) -> Iterator[RadosClient]:
    """A client with this entity's name and keyring."""
    host = cluster.host_with(arch)
    path = host.directory / "interop.keyring"
    host.push(key, path, mode=0o600)
    # Without the last two, a client with a daemon's name would use the daemon's log and socket.
    options = {"keyring": str(path), "log_file": "", "admin_socket": ""}
    client = RadosClient(host, conf.conf_path(host), name=name, patience=cluster.patience, options=options)
    try:
        yield client
    finally:
        client.close()
        host.remove(path)


def scenarios(arch: Arch) -> tuple[Scenario, ...]:
    return (
        Scenario(
            name=f"interop.keys-client[client={arch}]",
            goal=f"A client of {arch} works with its new cephx key within its caps, and Ceph refuses the old key.",
            method="Writes with the old key, imports a new one and writes with it, tries what its caps forbid and to "
            "write once it is blocklisted, reads all, then tries the old key, and the new one once it is removed.",
            run=partial(client_key, client=arch),
            sees=(".*: answers",),
            expects=EXPECTED,
        ),
        Scenario(
            name=f"interop.keys-osd[on={arch}]",
            goal=f"An OSD of {arch} works with its new cephx key, and Ceph refuses the old one.",
            method="Imports a new key, restarts the OSD with it, tries the old key, writes and reads with the OSD as "
            "primary.",
            run=partial(osd_key, on=arch),
            check="witnessed",
            # The restart of an emulated OSD takes many seconds.
            tier=Tier.QUICK if arch is host_arch() else Tier.FULL,
            expects=EXPECTED,
        ),
    )


SCENARIOS: tuple[Scenario, ...] = tuple(scenario for arch in Arch for scenario in scenarios(arch))
