"""What the S3 cases share: clients that write through one gateway and read through the other, and result records."""

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
from cephlab.suites.cephtests.programs import read_known, reason_for
from cephlab.suites.object.stand import gateways

PROGRAM = "s3"
OTHER = "cephlab-other"
"""A second user, who owns nothing."""
LIST = Path(__file__).with_name("known-s3.toml")
AT_ONCE = 3
"""Cases that run in parallel: they mostly wait for the emulated gateway."""
TRIES = 2


class Differs(Exception):
    """An answer differs from the expected one."""


def same(what: str, got: object, wanted: object) -> None:
    """Raises Differs unless both are equal. The message shows long bodies by length and sha256."""
    if got != wanted:
        raise Differs(f"{what}: got {told(got)}, wanted {told(wanted)}")


def told(value: object) -> str:
    """A value as short text."""
    if isinstance(value, bytes) and len(value) > 80:
        return f"{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()[:12]}"
    return repr(value)[:300]


def refusal(what: str, call: Callable[[], object], *codes: str) -> None:
    """Raises Differs unless S3 refuses a call with one of the codes."""
    from botocore.exceptions import ClientError

    try:
        call()
    except ClientError as error:
        code = str(error.response["Error"]["Code"])
        if code not in codes:
            raise Differs(f"{what}: refused with {code}, wanted {' or '.join(codes)}") from None
        return
    raise Differs(f"{what}: allowed, wanted {' or '.join(codes)}")


_MAKING = Lock()
"""Guards the session, which can create clients in only one thread at a time."""


@cache
def _session() -> Any:
    import boto3

    return boto3.session.Session()


@dataclass(frozen=True)
class Keys:
    """The keys of a client. None: anonymous."""

    access: str | None
    secret: str | None = None


@dataclass(frozen=True)
class Entrance:
    """A gateway's addresses for boto3. trusted: the file with its certificate."""

    arch: str
    address: str
    tls_address: str
    trusted: Path

    @cache  # noqa: B019 - creating a client reads megabytes of descriptions; all threads may use it
    def client(self, keys: Keys, *, tls: bool = False) -> Any:
        """A boto3 client. It sends checksums only where the API requires them, and retries every request once."""
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
    """The clients and the bucket of one case: it writes through one gateway and reads through the other.

    bucket: a name that no other case uses; it is not created yet. patience: of the slower gateway.
    """

    writer: Entrance
    reader: Entrance
    keys: Keys
    other: Keys
    bucket: str
    patience: float = 1.0

    @cached_property
    def write(self) -> Any:
        """The owner's client for the gateway that is written through."""
        return self.writer.client(self.keys)

    @cached_property
    def read(self) -> Any:
        """The owner's client for the gateway that is read through."""
        return self.reader.client(self.keys)

    def made(self, **more: Any) -> str:
        """Create the bucket through the writing gateway; returns its name."""
        self.write.create_bucket(Bucket=self.bucket, **more)
        return self.bucket

    def put(self, key: str, body: bytes, **more: Any) -> Any:
        return self.write.put_object(Bucket=self.bucket, Key=key, Body=body, **more)

    def got(self, key: str, client: Any = None, **more: Any) -> bytes:
        """The body of an object, read through the reading gateway."""
        return bytes((client or self.read).get_object(Bucket=self.bucket, Key=key, **more)["Body"].read())


Case = Callable[[Ways], None]


def named(*cases: Case) -> Mapping[str, Case]:
    """Cases by the names of their functions."""
    return {case.__name__: case for case in cases}


@dataclass(frozen=True)
class Result:
    """How a case ended, as the history records it."""

    case: str
    result: str
    seconds: float
    message: str = ""


def tried(name: str, case: Case, ways: Ways) -> Result:
    """Run one case. It fails if S3 refuses a request, if no answer comes or if an answer differs."""
    from botocore.exceptions import BotoCoreError, ClientError

    began_s = time.monotonic()
    title = f"{name}/{ways.writer.arch}_{ways.reader.arch}"
    try:
        case(ways)
    except (Differs, ClientError, BotoCoreError, NotReached, OSError, KeyError) as error:
        return Result(title, "fail", time.monotonic() - began_s, f"{type(error).__name__}: {error}")
    return Result(title, "pass", time.monotonic() - began_s)


def entrances(cluster: Cluster, scratch: Path) -> dict[Arch, Entrance]:
    """The gateways' addresses for boto3. scratch: the folder for their certificates."""
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
    """Unavailable if boto3 is missing: the cephlab wheel does not install it."""
    try:
        import boto3  # noqa: F401
    except ImportError:
        raise Unavailable(
            "boto3 is not installed", "the suite s3 needs it to reach gateways", "pip install 'cephlab[s3]'"
        ) from None


def run(stage: Stage, group: str, cases: Mapping[str, Case]) -> None:
    """Run the cases of a group, with each gateway once as the writer, and record every result."""
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
    """Record all results, each with the reason why the case cannot pass if that is known."""
    known = read_known(LIST)
    for result in results:
        why = reason_for(known, PROGRAM, result.case)
        recorder.record("gtest_case", program=PROGRAM, known=why, **vars(result))
    failed = sum(result.result != "pass" for result in results)
    ending = f"{failed} of {len(results)} cases failed"
    recorder.record("gtest_program", program=PROGRAM, code=1 if failed else 0, ending=ending, tail="")
    recorder.witness("cases through two gateways", got=len(results), least=2)
    ways = sorted({result.case.rpartition("/")[2] for result in results})
    wanted = sorted(f"{arch}_{arch.other}" for arch in Arch)
    recorder.observe("pairs of writing and reading gateways", got=ways, wanted=wanted)
