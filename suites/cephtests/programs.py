"""Ceph's own test programs, with the client on one architecture and every primary on the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.workers import Workers
from cephlab.lab.ceph import conf
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.preflight import available_on
from cephlab.lab.history.history import Recorder
from cephlab.lab.providers.host import Host, lacks_aio
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import GIB
from cephlab.lab.spec.specfile import TomlTable, load_model
from cephlab.lab.spec.written import Flag
from cephlab.lab.workloads.gtest import Call, CaseResult, GtestRun, list_cases, run_gtest
from cephlab.suites.interop.matrix import counted_operations, observe_client

LIST = Path(__file__).with_name("known-gtest.toml")


class Known(TomlTable):
    """One entry. case: `Suite.name`, with * and ?; run: True runs it as an expected failure, False skips it.

    lab: the provider that the entry is for, except its emulated machines; empty for any.
    """

    program: Annotated[str, Field(pattern="^(ceph_test_|s3|pjdfstest)")]
    case: Annotated[str, Field(pattern=r"^[\w*?/]+\.[\w*?/]+$")]
    reason: Annotated[str, Field(min_length=20)]
    run: Flag = True
    lab: str = ""

    def holds_on(self, lab: str, *, emulated: bool) -> bool:
        return not self.lab or (self.lab == lab and not emulated)

    def covers(self, program: str, case: str) -> bool:
        return program == self.program and fnmatchcase(case, self.case)


class _KnownFile(TomlTable):
    known: tuple[Known, ...] = ()


def read_known(path: Path = LIST) -> tuple[Known, ...]:
    """The `[[known]]` tables of a file. SpecError names a wrong key."""
    return load_model(path, _KnownFile, what="a list of known cases", hint="see its other entries").known


def known_on(host: Host, lab: str) -> tuple[Known, ...]:
    """The entries that hold on a provider's host."""
    return tuple(entry for entry in read_known() if entry.holds_on(lab, emulated=host.emulated))


def reason_for(known: Sequence[Known], program: str, case: str) -> str | None:
    """Why a case cannot pass here, or None."""
    return next((entry.reason for entry in known if entry.covers(program, case)), None)


def selection(known: Sequence[Known], program: str, select: str) -> str:
    """A gtest filter without the cases that must not run."""
    left_out = [entry.case for entry in known if entry.program == program and not entry.run]
    if not left_out:
        return select
    # A filter has one dash. All patterns after it are excluded.
    return ":".join([select if "-" in select else f"{select}-", *left_out]).replace("-:", "-")


AT_ONCE = 3
"""Programs that run at once: their cases mostly wait for new pools and for watches that time out."""


@dataclass(frozen=True)
class UpstreamProgram:
    """One test program, or a part of one.

    limit_s: on native hosts; core: gtest filter of the cases in the quick tier; objects: False when its cases only send
    commands; expects: log lines that this program alone causes; part: name of the part; select: gtest filter of its
    cases; environ: variables that the program reads; emulated_bytes: memory that it takes under a user-mode emulator,
    if that is gigabytes.
    """

    name: str
    limit_s: float = 120.0
    core: str | None = None
    objects: bool = True
    expects: tuple[tuple[str, str], ...] = ()
    part: str = ""
    select: str = "*"
    environ: tuple[tuple[str, str], ...] = ()
    emulated_bytes: int = 0

    @property
    def topic(self) -> str:
        return "-".join(filter(None, [self.name.removeprefix("ceph_test_"), self.part]))


CORE_AIO = (
    "LibRadosAio.SimpleWrite:LibRadosAio.RoundTrip:LibRadosAio.OmapPP:LibRadosAio.MultiWrite:LibRadosAioEC.RoundTrip"
)

MISC_EMULATED_BYTES = 17 * GIB
"""What ceph_test_rados_api_misc takes (docs/measured/whole-machine.md): the emulator keeps memory of each of the 4096
clients of one case."""

ONLY_COMMANDS = ("cmd", "cmd_pp", "pool", "service", "service_pp")

TIERS_EXPECT = (
    (r"\(CACHE_POOL_NEAR_FULL\)", "Cases give a cache tier a target of a few objects and exceed it."),
    (
        r"snap_mapper\.add_oid found existing snaps mapped on \S+, removing",
        "The cache tier gets a clone again, and every OSD that holds the clone corrects its mapping.",
    ),
)

API = (
    # The longest programs of the core come first, so that no long one runs alone at the end.
    UpstreamProgram("ceph_test_rados_api_list", core="*"),
    UpstreamProgram("ceph_test_rados_api_watch_notify", core="*"),
    UpstreamProgram("ceph_test_rados_api_io", core="*"),
    UpstreamProgram("ceph_test_rados_api_snapshots", core="*"),
    UpstreamProgram("ceph_test_rados_api_lock", core="*"),
    UpstreamProgram("ceph_test_rados_api_aio", limit_s=300, core=CORE_AIO),
    UpstreamProgram("ceph_test_rados_api_stat", core="*"),
    *(
        UpstreamProgram(f"ceph_test_rados_api_{topic}", limit_s=600, objects=topic not in ONLY_COMMANDS)
        for topic in [
            "aio_pp",
            "asio",
            "c_read_operations",
            "c_write_operations",
            "cls_remote_reads",
            "cmd",
            "cmd_pp",
            "io_pp",
            "lock_pp",
            "misc_pp",
            "pool",
            "service",
            "service_pp",
            "snapshots_pp",
            "stat_pp",
            "watch_notify_pp",
        ]
    ),
    UpstreamProgram("ceph_test_rados_api_misc", limit_s=600, emulated_bytes=MISC_EMULATED_BYTES),
    UpstreamProgram("ceph_test_rados_api_tier_pp", limit_s=900, expects=TIERS_EXPECT),
)

HELLO_EXPECTS = (
    (
        r"method hello\.bad_(reader|writer) tried to (read|update) object but is not marked (RD|WR)",
        "A case calls methods that do more than they were registered for.",
    ),
)

CLASSES = (
    # Without ceph_test_cls_rgw_meta, which needs a gateway.
    *(
        UpstreamProgram(f"ceph_test_cls_{topic}", limit_s=900)
        for topic in [
            "2pc_queue",
            "cas",
            "cmpomap",
            "journal",
            "lock",
            "log",
            "lua",
            "numops",
            "queue",
            "rbd",
            "refcount",
            "rgw",
            "rgw_gc",
            "rgw_stats",
            "sdk",
        ]
    ),
    UpstreamProgram("ceph_test_cls_hello", limit_s=900, expects=HELLO_EXPECTS),
)

ENCRYPTED_FLATTEN = (
    "plain-under-luks1",
    "plain-under-luks2",
    "unformatted-luks1",
    "luks1-under-luks1",
    "luks1-under-luks2",
    "unformatted-luks2",
    "luks2-under-luks2",
    "luks2-under-luks1",
)
"""The cases of EncryptedFlattenTest/0 to /7. Each takes as long as many of the other suites together."""

LIBRBD_PARTS = {
    "api": "TestLibRBD.*",
    "diff": "DiffIterateTest*",
    **{f"encrypted-{topic}": f"EncryptedFlattenTest/{number}.*" for number, topic in enumerate(ENCRYPTED_FLATTEN)},
}
# Cases that exist only in other releases.
LIBRBD_PARTS["rest"] = f"*-{':'.join(LIBRBD_PARTS.values())}"

# Without RBD_FEATURES the program makes images of format 1 and skips every case that needs a feature. 61 is the default
# for images: layering, exclusive-lock, object-map, fast-diff, deep-flatten.
LIBRBD = tuple(
    UpstreamProgram("ceph_test_librbd", limit_s=3600, part=part, select=select, environ=(("RBD_FEATURES", "61"),))
    for part, select in LIBRBD_PARTS.items()
)

OTHERS = (
    *(UpstreamProgram(f"ceph_test_rados_striper_api_{topic}", limit_s=600) for topic in ("aio", "io", "striping")),
    *LIBRBD,
)

PROGRAMS = (*API, *CLASSES, *OTHERS)

ALL_CLASSES = Topology(options=(("osd_class_default_list", "*"), ("osd_class_load_list", "*")))
"""By default OSDs load only the classes that clients normally need. The tests of cls_lua and cls_sdk need those too."""

EXPECTS = {
    r"Health check (failed|update): .*\(POOL_APP_NOT_ENABLED\)": "Pools of the test programs have no application set.",
    r"\(POOL_PG_NUM_NOT_POWER_OF_TWO\)": "A case makes such a pool on purpose.",
    r"\(CACHE_POOL_NO_HIT_SET\)": "Cases make cache tiers without hit sets.",
    r"\(POOL_FULL\)|pool '.*' is full \(reached quota's": "A case fills a pool up to its quota on purpose.",
}


def run(stage: Stage, programs: Sequence[UpstreamProgram], client: Arch, *, core: bool = False) -> None:
    """Run programs on a host of the client's architecture while every primary has the other architecture."""
    cluster, host = stage.cluster, stage.cluster.host_with(client)
    require_programs(cluster, host, [program.name for program in programs])
    for program in programs:
        require_memory(host, program, cluster.patience)
    observe_client(stage, client)
    with (
        # One program leaves its pool behind, and Ceph warns about it after five minutes.
        pools.none_left(cluster),
        pools.led_by(cluster, client.other),
        counted_operations(stage, client.other, wanted=any(program.objects for program in programs)),
        Workers(AT_ONCE, thread_name_prefix="gtest") as workers,
    ):
        for program, outcome in zip(
            programs, workers.map(partial(run_program, cluster, host, core=core), programs), strict=True
        ):
            record_run(stage.recorder, outcome, known_on(host, cluster.provider_name))
            if not program.objects:
                passed = sum(case.result is CaseResult.PASS for case in outcome.cases)
                stage.recorder.witness(f"cases of {program.name} that passed", got=passed, least=1)


def run_program(cluster: Cluster, host: Host, program: UpstreamProgram, *, core: bool) -> GtestRun:
    """Run one program on `host`. A native host lists the cases first, which is quicker than an emulated one."""
    known = known_on(host, cluster.provider_name)
    select = selection(known, program.name, program.core or "*" if core else program.select)
    lister = cluster.client.host
    report = host.directory / f"{program.name}.json"
    env = {**environment(host), **dict(program.environ)}
    call = Call(program.name, report, program.limit_s * cluster.patience, env, select)
    return run_gtest(host, call, list_cases(lister, program.name, env=environment(lister), select=select))


def record_run(recorder: Recorder, outcome: GtestRun, known: Sequence[Known]) -> None:
    """Record how a program ended, and each of its cases. known: the known failures where it ran."""
    for case in outcome.cases:
        recorder.record(
            "gtest_case",
            program=outcome.program,
            case=case.name,
            result=case.result.value,
            seconds=case.seconds,
            message=case.message,
            known=reason_for(known, outcome.program, case.name),
        )
    recorder.record(
        "gtest_program", program=outcome.program, code=outcome.code, ending=outcome.ending, tail=outcome.tail
    )


def environment(host: Host) -> dict[str, str]:
    # Without CEPH_CLIENT_ID some programs connect as client.0, which has no key.
    return {"CEPH_CONF": str(conf.conf_path(host)), "CEPH_CLIENT_ID": "admin"}


def require_programs(cluster: Cluster, host: Host, programs: Sequence[str]) -> None:
    """Raise Unavailable with the names of the programs that the image lacks."""
    paths = [str(host.root / "usr/bin" / name) for name in programs]
    # `head` runs on the host, so that it sees the image's files. This process would see the machine's own.
    opened = host.run(["head", "-v", "-c", "0", *paths], check=False, timeout_s=60 * cluster.patience).stdout
    absent = [path for path in paths if f"==> {path} <==" not in opened]
    if absent:
        raise Unavailable(
            f"the image has no {absent[0].rpartition('/')[2]}",
            f"missing on {host.name}: {', '.join(absent)}",
            "use an image with the package ceph-test",
        )


def require_memory(host: Host, program: UpstreamProgram, patience: float) -> None:
    """Unavailable if less memory is available than a program takes under a user-mode emulator."""
    if not (program.emulated_bytes and lacks_aio(host)):
        return
    available = available_on(host, timeout_s=60 * patience)
    if available < program.emulated_bytes:
        raise Unavailable(
            f"{program.name} takes {program.emulated_bytes / GIB:.1f} GiB of memory under an emulator, and {host.name} "
            f"has {available / GIB:.1f} GiB available",
            hint="run it on a machine with more memory, or stop other programs",
        )


def core_scenario(client: Arch) -> Scenario:
    return Scenario(
        name=f"cephtests.core[client={client},primary={client.other}]",
        goal="The core of upstream's librados tests passes between architectures.",
        method=f"Runs the tests of io, aio, snapshots, lock, list, stat and watch on {client} with all primaries on "
        f"{client.other}.",
        run=partial(run, programs=[program for program in PROGRAMS if program.core], client=client, core=True),
        check="gtest",
        expects=EXPECTS,
    )


def program_scenario(program: UpstreamProgram, client: Arch) -> Scenario:
    which = f"Part {program.part} of upstream's {program.name}" if program.part else f"Upstream's {program.name}"
    return Scenario(
        name=f"cephtests.{program.topic}[client={client},primary={client.other}]",
        goal=f"{which} passes between architectures.",
        method=f"Runs all its cases on {client} with all primaries on {client.other}.",
        run=partial(run, programs=[program], client=client),
        check="gtest",
        tier=Tier.FULL,
        topology=ALL_CLASSES,
        memory_bytes=program.emulated_bytes if client is not host_arch() else 0,
        expects={**EXPECTS, **dict(program.expects)},
    )


SCENARIOS: tuple[Scenario, ...] = (
    *(core_scenario(client) for client in Arch),
    *(program_scenario(program, client) for program in PROGRAMS for client in Arch),
)
