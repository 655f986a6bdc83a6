"""Speed of one core in Ceph's own arithmetic: crc32c of libceph-common, and erasure codes."""

import json
from collections.abc import Mapping
from functools import partial

from cephlab.lab.ceph import conf
from cephlab.lab.cluster.rates import parse_benchmark
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.baseline.rated import CHECKSUM, ERASURE_ENCODE, speed

SECONDS: Mapping[Tier, float] = {Tier.QUICK: 0.5, Tier.FULL: 5.0}

CHECK_VALUE = 0x1CF96D7C
"""Ceph's crc32c of `123456789`, starting from all ones: the Castagnoli polynomial's check value 0xe3069283 (catalogue
by Greg Cook, CRC-32/ISCSI) before its bits are inverted."""

# argv: library, seconds. Prints one JSON object. The exported variable holds the function that the library chose when
# it was loaded. The plain C function is exported too, which shows whether the library chose that one.
_CRC = """
import ctypes, json, sys, time
library = ctypes.CDLL(sys.argv[1])
chosen = ctypes.c_void_p.in_dll(library, "ceph_crc32c_func").value
plain = ctypes.cast(library.ceph_crc32c_sctp, ctypes.c_void_p).value
crc = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint)(chosen)
block = bytes(range(256)) * 4096
rounds, began = 0, time.process_time()
while time.process_time() - began < float(sys.argv[2]):
    crc(rounds, block, len(block))
    rounds += 1
spent = time.process_time() - began
print(json.dumps({
    "value": crc(0xffffffff, b"123456789", 9),
    "accelerated": chosen != plain,
    "bytes": rounds * len(block),
    "seconds": spent,
}))
"""

EC_BYTES = 4 * MIB
EC_ROUNDS: Mapping[Tier, int] = {Tier.QUICK: 10, Tier.FULL: 500}
_TIMEOUT_S = 120.0


PLUGINS = ("isa", "jerasure")
K, M = 4, 2
"""Chunks as in the 10-billion-object paper."""
CODE = ("--parameter", f"k={K}", "--parameter", f"m={M}", "--parameter", "technique=reed_sol_van")


def one_of_each(stage: Stage) -> list[Host]:
    """A host of each architecture of the cluster. Observes that none was left out."""
    hosts = [stage.cluster.host_with(arch) for arch in stage.cluster.spec.archs]
    there = sorted({host.arch for host in stage.cluster.hosts.values()})
    stage.recorder.observe("architectures measured", got=sorted(host.arch for host in hosts), wanted=there)
    return hosts


def run_crc(stage: Stage) -> None:
    """Check crc32c on each architecture: its value, the use of the processor's crc32c instructions, and its rate."""
    for host in one_of_each(stage):
        library = f"usr/lib/{host.arch.triplet}/ceph/libceph-common.so.2"
        argv = ["python3", "-c", _CRC, str(host.root / library), f"{SECONDS[stage.tier]:g}"]
        measured = json.loads(host.run(argv, timeout_s=_TIMEOUT_S * stage.cluster.patience).stdout)
        stage.recorder.observe(f"crc32c of the check string on {host.arch}", got=measured["value"], wanted=CHECK_VALUE)
        title = f"{host.arch}: crc32c uses the processor's own instructions"
        stage.recorder.observe(title, got=measured["accelerated"], wanted=True)
        stage.recorder.witness(f"{host.arch}: bytes checksummed", got=measured["bytes"], least=MIB)
        rate = measured["bytes"] / measured["seconds"] / MIB
        limit = speed(stage, host, CHECKSUM)
        stage.recorder.figure(f"{host.arch}: crc32c on one core, blocks of 1 MiB", rate, "MiB/s", limit)


def run_erasure(stage: Stage, plugin: str) -> None:
    """Measure how fast one core encodes, and decodes after the loss of M chunks."""
    for host in one_of_each(stage):
        for work in ("encode", "decode"):
            seconds, size = benchmark(stage, host, plugin, work)
            stage.recorder.witness(f"{host.arch}: bytes to {work}", got=size, least=EC_BYTES)
            title = f"{host.arch}: {work} {plugin} {K}+{M} on one core"
            rating = ERASURE_ENCODE if (plugin, work) == ("isa", "encode") else None
            stage.recorder.figure(title, size / seconds / MIB, "MiB/s", speed(stage, host, rating))


def benchmark(stage: Stage, host: Host, plugin: str, work: str) -> tuple[float, int]:
    """Run Ceph's own benchmark. Returns (seconds, bytes of objects)."""
    folder = host.root / f"usr/lib/{host.arch.triplet}/ceph/erasure-code"
    argv = ["ceph_erasure_code_benchmark", "--plugin", plugin, "--workload", work, *CODE]
    argv += ["--erasure-code-dir", str(folder)]
    argv += ["--size", str(EC_BYTES), "--iterations", str(EC_ROUNDS[stage.tier])]
    argv += ["--erasures", str(M)] if work == "decode" else []
    env = {"CEPH_CONF": str(conf.conf_path(host))}
    result = host.run(argv, env=env, timeout_s=_TIMEOUT_S * stage.cluster.patience)
    return parse_benchmark(result.stdout)


SCENARIOS = (
    Scenario(
        name="baseline.checksum-rate",
        goal="Each architecture of the cluster computes the same crc32c, with its processors' own instructions.",
        method="Calls the function that libceph-common chose on one node of each architecture, checks its result and "
        "measures its rate.",
        run=run_crc,
        topology=ANY_ARCH,
        check="figures",
        sees=("architectures measured", "crc32c of the check string on .*"),
    ),
    *(
        Scenario(
            name=f"baseline.erasure-rate[{plugin}]",
            goal=f"One core encodes and decodes {plugin} {K}+{M} at the profile's rate, if a profile states one.",
            method="Runs Ceph's own erasure code benchmark on one node of each architecture.",
            run=partial(run_erasure, plugin=plugin),
            topology=ANY_ARCH,
            check="figures",
            sees=("architectures measured", ".*: bytes to encode", ".*: bytes to decode"),
        )
        for plugin in PLUGINS
    ),
)
