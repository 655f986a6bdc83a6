"""Shared by the cases: who writes through one gateway and reads through the other, and how results are kept."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

from cephlab.lab.base.errors import NotReached, Unavailable
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Gateway, speaking_s3, user_keys
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.cephtests import read_known, reason_for
from cephlab.suites.object.stand import gateways

PROGRAM = "s3"
OTHER = "cephlab-other"
"""A second user, to whom nothing belongs."""
LIST = Path(__file__).with_name("known-s3.toml")
AT_ONCE = 3
"""Cases at once: they mostly wait for the emulated gateway."""
TRIES = 2


class Differs(Exception):
    """What came is not what had to come."""


def same(what: str, got: object, wanted: object) -> None:
    """Differs unless both are equal; long bodies are told by their length and sha256."""
    if got != wanted:
        raise Differs(f"{what}: got {told(got)}, wanted {told(wanted)}")


def told(value: object) -> str:
    """A value in short."""
    if isinstance(value, bytes) and len(value) > 80:
        return f"{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()[:12]}"
    return repr(value)[:300]


def refusal(what: str, call: Callable[[], object], *codes: str) -> None:
    """Differs unless S3 refuses a call with one of the codes."""
    from botocore.exceptions import ClientError

    try:
        call()
    except ClientError as error:
        code = str(error.response["Error"]["Code"])
        if code not in codes:
            raise Differs(f"{what}: refused with {code}, wanted {' or '.join(codes)}") from None
        return
    raise Differs(f"{what}: it was allowed, wanted {' or '.join(codes)}")


_MAKING = Lock()
"""A session makes clients for one thread at a time."""


@cache
def _session() -> Any:
    import boto3

    return boto3.session.Session()


@dataclass(frozen=True)
class Keys:
    """Who asks; None for nobody."""

    access: str | None
    secret: str | None = None


@dataclass(frozen=True)
class Entrance:
    """A gateway as boto3 needs it. trusted: file with its certificate."""

    arch: str
    address: str
    tls_address: str
    trusted: Path

    @cache  # noqa: B019 - a client reads megabytes of descriptions when it is made; it may be used by all threads
    def client(self, keys: Keys, *, tls: bool = False) -> Any:
        """A client of boto3. It sends no checksums that a gateway did not ask for, and tries everything once more."""
        from botocore import UNSIGNED
        from botocore.config import Config

        config = Config(
            signature_version="s3v4" if keys.access else UNSIGNED,
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            retries={"total_max_attempts": TRIES},
            read_timeout=120,
        )
        with _MAKING:
            return self._made(config, keys, tls=tls)

    def _made(self, config: Any, keys: Keys, *, tls: bool) -> Any:
        return _session().client(
            "s3",
            endpoint_url=f"https://{self.tls_address}" if tls else f"http://{self.address}",
            aws_access_key_id=keys.access,
            aws_secret_access_key=keys.secret,
            region_name="us-east-1",
            verify=str(self.trusted) if tls else None,
            config=config,
        )


@dataclass(frozen=True)
class Ways:
    """What one case has: the gateway that it writes through and the one that it reads through.

    bucket: a name that nobody else uses; it is not made. patience: of the slower gateway.
    """

    writer: Entrance
    reader: Entrance
    keys: Keys
    other: Keys
    bucket: str
    patience: float = 1.0

    @cached_property
    def write(self) -> Any:
        """The owner's client of the writing gateway."""
        return self.writer.client(self.keys)

    @cached_property
    def read(self) -> Any:
        """The owner's client of the reading gateway."""
        return self.reader.client(self.keys)

    def made(self, **more: Any) -> str:
        """The bucket, made through the writing gateway."""
        self.write.create_bucket(Bucket=self.bucket, **more)
        return self.bucket

    def put(self, key: str, body: bytes, **more: Any) -> Any:
        return self.write.put_object(Bucket=self.bucket, Key=key, Body=body, **more)

    def got(self, key: str, client: Any = None, **more: Any) -> bytes:
        """A body, through the reading gateway."""
        return bytes((client or self.read).get_object(Bucket=self.bucket, Key=key, **more)["Body"].read())


Case = Callable[[Ways], None]


def named(*cases: Case) -> Mapping[str, Case]:
    """Cases by their functions' names."""
    return {case.__name__: case for case in cases}


@dataclass(frozen=True)
class Result:
    """How a case ended, as a history has it."""

    case: str
    result: str
    seconds: float
    message: str = ""


def tried(name: str, case: Case, ways: Ways) -> Result:
    """Run one case; what S3 refuses, what does not come and what differs is its failure."""
    from botocore.exceptions import BotoCoreError, ClientError

    began_s = time.monotonic()
    title = f"{name}/{ways.writer.arch}_{ways.reader.arch}"
    try:
        case(ways)
    except (Differs, ClientError, BotoCoreError, NotReached, OSError, KeyError) as error:
        return Result(title, "fail", time.monotonic() - began_s, f"{type(error).__name__}: {error}")
    return Result(title, "pass", time.monotonic() - began_s)


def entrances(cluster: Cluster, scratch: Path) -> dict[Arch, Entrance]:
    """The gateways as boto3 needs them. scratch: where their certificates go."""
    doors = {}
    for arch, gateway in gateways(cluster).items():
        trusted = scratch / f"{gateway.name}.pem"
        trusted.write_text(gateway.certificate)
        doors[arch] = Entrance(arch.value, gateway.address, gateway.tls_address, trusted)
    return doors


def owner(cluster: Cluster) -> Gateway:
    """Any gateway, with the keys of the lab's user."""
    return speaking_s3(cluster)[0]


def require_boto3() -> None:
    """Unavailable without it: cephlab's wheel does not bring it."""
    try:
        import boto3  # noqa: F401
    except ImportError:
        raise Unavailable(
            "boto3 is not installed", "the suite s3 asks gateways by it", "pip install 'cephlab[s3]'"
        ) from None


def run(stage: Stage, group: str, cases: Mapping[str, Case]) -> None:
    """Run a group's cases with either gateway as the one that is written through, and record each."""
    require_boto3()
    cluster = stage.cluster
    doors = entrances(cluster, stage.scratch)
    first, other = owner(cluster), user_keys(cluster, OTHER)
    mine, theirs = Keys(first.access_key, first.secret_key), Keys(other["access_key"], other["secret_key"])
    jobs = []
    for number, (writer, name) in enumerate(product(doors, cases)):
        bucket = f"{group}-{number}-{stage.rng.randrange(1 << 24):06x}"
        ways = Ways(doors[writer], doors[writer.other], mine, theirs, bucket, cluster.patience)
        jobs.append((f"{group}.{name}", cases[name], ways))
    with Workers(AT_ONCE, thread_name_prefix="s3") as workers:
        results = list(workers.map(lambda job: tried(*job), jobs))
    record(stage.recorder, results)


def record(recorder: Recorder, results: Sequence[Result]) -> None:
    """Put all results into the history, one by one, each beside why it cannot pass where that is known."""
    known = read_known(LIST)
    for each in results:
        why = reason_for(known, PROGRAM, each.case)
        recorder.record("gtest_case", program=PROGRAM, known=why, **vars(each))
    failed = sum(each.result != "pass" for each in results)
    ending = f"{failed} of {len(results)} cases failed"
    recorder.record("gtest_program", program=PROGRAM, code=1 if failed else 0, ending=ending, tail="")
    recorder.witness("cases through two gateways", got=len(results), least=2)
    ways = sorted({each.case.rpartition("/")[2] for each in results})
    wanted = sorted(f"{arch}_{arch.other}" for arch in Arch)
    recorder.observe("gateways written through, and read through", got=ways, wanted=wanted)
