"""TLS with a pre-shared key: only hosts with the key get the volume, and the data on the wire cannot be read."""

from base64 import b64decode
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace

from cephlab.lab.blockstack.initiator import Connecting, Initiator
from cephlab.lab.blockstack.nvmeof import Pair, tls_key_of
from cephlab.lab.blockstack.tls import ROLE_SET, TlsNode
from cephlab.lab.ceph.kernel import look_at_kernels
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.nvmeof.access import SECRET_BYTES, refused_by_both
from cephlab.suites.nvmeof.content import both_ways
from cephlab.suites.nvmeof.stand import INITIATOR, NODES, TOPOLOGY, from_first, scenario_on_pair, served
from cephlab.suites.nvmeof.wire import wired

MARK_BYTES = 64
"""This many random bytes occur nowhere else in the traffic."""
ENCRYPTED, PLAIN = "over TLS", "without TLS"


def by_key(stage: Stage) -> None:
    """Connect without TLS, without a key and with a wrong key; then with the right key, through tapped wires."""
    cluster = stage.cluster
    right, wrong = (tls_key_of(stage.rng.randbytes(SECRET_BYTES)) for _ in range(2))
    asking = Initiator(cluster, INITIATOR, Connecting(tls=True))
    nodes = {name: TlsNode(cluster, name) for name in (INITIATOR, *NODES.values())}
    with ExitStack() as undo:
        for node in nodes.values():
            undo.enter_context(node.shaking_hands())
        with served(stage, from_first(host_arch()), tls=True) as pair:
            for gateway in pair.gateways:
                nodes[gateway.name].give(right, pair.volume, asking.nqn)
            refused_by_both(stage, pair, Initiator(cluster, INITIATOR), PLAIN)
            refused_by_both(stage, pair, asking, "over TLS without a key")
            nodes[INITIATOR].give(wrong, pair.volume, asking.nqn)
            refused_by_both(stage, pair, asking, "over TLS with a wrong key")
            nodes[INITIATOR].give(right, pair.volume, asking.nqn)
            marks = tapped(stage, pair, asking, ENCRYPTED)
            stage.recorder.observe(f"data marks seen on the wires {ENCRYPTED}", got=marks, wanted=0)
        with served(stage, from_first(host_arch())) as pair:
            marks = tapped(stage, pair, Initiator(cluster, INITIATOR), PLAIN)
            stage.recorder.witness(f"data marks seen on the wires {PLAIN}", got=marks, least=4)
    look_for_keys(stage, nodes.values(), (right, wrong))


def tapped(stage: Stage, pair: Pair, asking: Initiator, how: str) -> int:
    """Pass data both ways through each gateway, over wires that look for its mark; returns how often they saw it."""
    mark, marks = stage.rng.randbytes(MARK_BYTES), 0
    with wired(pair, asking, marker=mark.hex()) as (stand, wires):
        for wire in wires:
            both_ways(stage, stand, f"{how}, {wire.gateway.arch}", address=wire.address, mark=mark)
            pair.hand_over()
            for way, counted in wire.counted().items():
                passed = f"bytes {way} {how}, {wire.gateway.arch}"
                stage.recorder.witness(passed, got=counted["passed"], least=len(mark))
                marks += counted["found"]
    return marks


def look_for_keys(stage: Stage, nodes: Iterable[TlsNode], keys: Iterable[str]) -> None:
    """Observe that neither kernels nor daemons logged a key, in its text form or as bytes."""
    hosts = {node.node: node.host for node in nodes}
    kernels = look_at_kernels(stage.cluster.run.id, hosts, (), {})
    logs = {f"the kernel of {name}": "\n".join(look.lines) for name, look in kernels.items()}
    logs |= {f"tlshd on {node.node}": node.host.read(node.log).decode(errors="replace") for node in nodes}
    forms = [form for key in keys for form in forms_of(key)]
    leaking = [where for where, text in logs.items() if any(form in text.lower() for form in forms)]
    stage.recorder.observe("logs that contain a key", got=leaking, wanted=[], of=len(logs))
    for where, text in logs.items():
        stage.recorder.witness(f"lines of {where}", got=len(text.splitlines()), least=1)


def forms_of(key: str) -> tuple[str, str]:
    """The forms in which a key may be written, in lower case: its base64 text, and its bytes in hex."""
    body = key.split(":")[2]
    return body.lower(), b64decode(body)[:SECRET_BYTES].hex()


SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.tls-psk",
        goal="Only a host that uses TLS and has the pre-shared key gets the volume, and neither data nor key leaks.",
        method="Connects without TLS, without a key, with a wrong key; with the right key passes data through both "
        "gateways over wires that look for it; repeats that without TLS; looks for the keys in logs.",
        run=by_key,
        check="witnessed",
        tier=Tier.FULL,
        topology=replace(TOPOLOGY, role_sets=("ceph", ROLE_SET)),
        sees=("gateways that accept a host .*", "device and paths of the volume .*", "logs that contain a key"),
    ),
)
