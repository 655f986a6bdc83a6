"""Erasure codes: both architectures encode the same chunks and decode each other's chunks after every loss."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations

from cephlab.lab.base.errors import CephTrouble, Unavailable
from cephlab.lab.base.workers import Workers
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.mirror import difference
from cephlab.suites.interop.sides import ArchSide, agree, each, sides

TOOL = "ceph-erasure-code-tool"
OBJECT_BYTES = 100_001  # several stripes of every profile, the last one partial
WORKERS = 2  # each decode is a short process: two at once hide the start-up time of an emulator
_SHOWN = 5


@dataclass(frozen=True)
class ErasureCode:
    """One erasure code. tolerated: number of chunks of which any may be lost; local: number of chunks beyond k+m.

    stripe_unit: bytes of a chunk in one stripe; tried: the most chunks that a scenario removes, 0 means `tolerated`.
    """

    plugin: str
    k: int
    m: int
    tolerated: int
    more: Mapping[str, str | int] = field(default_factory=dict)
    local: int = 0
    stripe_unit: int = 4096  # Ceph's default (osd_pool_erasure_code_stripe_unit)
    tried: int = 0

    @property
    def chunks(self) -> range:
        return range(self.k + self.m + self.local)

    @property
    def losses(self) -> list[tuple[int, ...]]:
        """The sets of chunks that a scenario removes."""
        return list(lost_chunks(len(self.chunks), self.tried or self.tolerated))

    @property
    def text(self) -> str:
        """The profile for the tool."""
        return ",".join(f"{key}={value}" for key, value in self._settings())

    @property
    def label(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self._settings() if key != "packetsize")

    def _settings(self) -> list[tuple[str, str | int]]:
        return [("plugin", self.plugin), *self.more.items(), ("k", self.k), ("m", self.m)]


def plain(plugin: str, technique: str, k: int, m: int) -> ErasureCode:
    return ErasureCode(plugin, k, m, m, {"technique": technique})


def bit_matrix(technique: str, k: int, m: int, w: int) -> ErasureCode:
    """A jerasure technique on a bit matrix. A chunk is a multiple of w packets of 32-bit words."""
    more: dict[str, str | int] = {"technique": technique, "w": w, "packetsize": PACKET}
    return ErasureCode("jerasure", k, m, m, more, stripe_unit=w * PACKET * 4)


def clay(k: int, m: int, d: int) -> ErasureCode:
    return ErasureCode("clay", k, m, m, {"d": d})


def lrc(k: int, m: int, group: int) -> ErasureCode:
    """Any m chunks may be lost: the global code restores data, then each group restores its parity. Needs two groups.

    With one group Ceph (at least up to 18.2.7) never computes the global parity, because ErasureCodeLrc::encode_chunks
    treats that group, which holds every chunk, as the only layer to encode.
    """
    return ErasureCode("lrc", k, m, m, {"l": group}, local=(k + m) // group)


def shec(k: int, m: int, c: int) -> ErasureCode:
    """Any c chunks may be lost (Ceph's manual, SHEC erasure code plugin)."""
    return ErasureCode("shec", k, m, c, {"c": c})


SMALL_LRC = lrc(2, 2, 2)
PACKET = 512  # words; with the default of 2048 one stripe is four times the object
QUICK = (
    plain("jerasure", "reed_sol_van", 2, 1),
    plain("jerasure", "reed_sol_van", 4, 2),
    plain("isa", "reed_sol_van", 2, 1),
    plain("isa", "reed_sol_van", 4, 2),
    replace(SMALL_LRC, tried=1),  # a group restores one chunk; erasure-pairs loses two, which may need the global code
    shec(2, 1, 1),
    clay(2, 1, 2),
)
FULL = (
    plain("jerasure", "reed_sol_van", 6, 3),
    plain("jerasure", "reed_sol_r6_op", 4, 2),
    bit_matrix("cauchy_orig", 4, 2, w=8),
    bit_matrix("cauchy_good", 4, 2, w=8),
    bit_matrix("liberation", 4, 2, w=7),
    bit_matrix("blaum_roth", 4, 2, w=6),
    bit_matrix("liber8tion", 4, 2, w=8),
    plain("isa", "cauchy", 4, 2),
    plain("isa", "reed_sol_van", 6, 3),
    lrc(4, 2, 3),
    shec(4, 3, 2),
    clay(4, 2, 5),
)


def run(stage: Stage, profile: ErasureCode) -> None:
    """Encode on both architectures, compare, then let each decode the chunks of the other."""
    data = stage.rng.randbytes(OBJECT_BYTES)
    with sides(stage.cluster, "erasure") as between:
        require_plugin(between, profile.plugin)
        encoded = each(between, partial(encode, profile=profile, data=data))
        for chunk in profile.chunks:
            agree(stage.recorder, f"chunk {chunk}", {arch: chunks[chunk] for arch, chunks in encoded.items()})
        losses = profile.losses

        def recover(side: ArchSide) -> list[str]:
            return decode_all(side, profile, encoded[side.arch.other], losses, data)

        for arch, wrong in each(between, recover).items():
            stage.recorder.observe(
                f"losses that {arch} does not restore", got=wrong[:_SHOWN], wanted=[], of=len(losses)
            )


def lost_chunks(chunks: int, most: int) -> Iterator[tuple[int, ...]]:
    """Every set of 1 to `most` lost chunks."""
    for lost in range(1, most + 1):
        yield from combinations(range(chunks), lost)


def require_plugin(between: Mapping[Arch, ArchSide], plugin: str) -> None:
    """Unavailable if an image has no such plugin."""
    for arch, side in between.items():
        library = f"usr/lib/{arch.triplet}/ceph/erasure-code/libec_{plugin}.so"
        # `test` runs on the host, because only the host's own programs see an emulated host's root.
        if side.host.run(["test", "-e", str(side.host.root / library)], check=False).code != 0:
            raise Unavailable(
                f"the {arch} image has no erasure code plugin {plugin}", library, "use a release whose packages have it"
            )


def encode(side: ArchSide, profile: ErasureCode, data: bytes) -> list[bytes]:
    """All chunks of data. Unavailable if the tool of this Ceph is known not to write them."""
    numbers, path, trouble = ",".join(map(str, profile.chunks)), side.put("object", data), None
    try:
        side.run(TOOL, "encode", profile.text, str(profile.stripe_unit), numbers, path)
    except CephTrouble as crashed:
        trouble = crashed
    if trouble is None and all(side.host.exists(side.path(f"object.{chunk}")) for chunk in profile.chunks):
        return [side.get(f"object.{chunk}") for chunk in profile.chunks]
    version = side.run("ceph-conf", "--version")  # ceph version 20.2.4 (HASH) ...
    if version.startswith("ceph version 20."):
        raise Unavailable(
            f"{TOOL} of this Ceph writes no parity chunks",
            f"{version}\nsee erasure-tool-without-parity in docs/track-record.md",
            "use a release whose tool writes them, e.g. reef",
        ) from trouble
    raise trouble or CephTrouble(f"{TOOL} succeeded, but a chunk is missing", version)


def decode_all(
    side: ArchSide,
    profile: ErasureCode,
    chunks: Sequence[bytes],
    losses: Sequence[tuple[int, ...]],
    data: bytes,
) -> list[str]:
    """Descriptions of the losses after which the remaining chunks do not restore the data."""

    def worker(number: int) -> list[str]:
        own = replace(side, directory=side.directory / f"worker{number}")
        for chunk, content in enumerate(chunks):
            own.put(f"object.{chunk}", content)
        compared = {lost: compare(decode(own, profile, lost), data) for lost in losses[number::WORKERS]}
        return [f"without {lost}: {result}" for lost, result in compared.items() if result != "equal"]

    with Workers(max_workers=WORKERS, thread_name_prefix="decode") as pool:
        return [line for lines in pool.map(worker, range(WORKERS)) for line in lines]


def decode(side: ArchSide, profile: ErasureCode, lost: tuple[int, ...]) -> bytes:
    left = ",".join(str(chunk) for chunk in profile.chunks if chunk not in lost)
    path = side.path("object")
    side.host.remove(path)
    side.run(TOOL, "decode", profile.text, str(profile.stripe_unit), left, path)
    return side.get("object")


def compare(content: bytes, data: bytes) -> str:
    """`equal` when content is data, padded with zeros to a whole stripe."""
    return difference(content, data.ljust(len(content), b"\0"))


def scenario(tier: Tier, profile: ErasureCode, topic: str = "erasure") -> Scenario:
    most = profile.tried or profile.tolerated
    return Scenario(
        name=f"interop.{topic}[{profile.label}]",
        goal="Both architectures encode the same chunks and decode each other's chunks after every loss of "
        f"{'one chunk' if most == 1 else f'up to {most} chunks'}.",
        method=f"Encodes the same bytes with {profile.text} on both; each decodes the other's chunks after every loss "
        f"of {'1 chunk' if most == 1 else f'1 to {most} chunks'}. The code tolerates the loss of any "
        f"{profile.tolerated}.",
        run=partial(run, profile=profile),
        sees=("chunk .* against .*", *(f"losses that {arch} does not restore" for arch in Arch)),
        tier=tier,
    )


SCENARIOS: tuple[Scenario, ...] = (
    *(scenario(Tier.QUICK, profile) for profile in QUICK),
    *(scenario(Tier.FULL, profile) for profile in FULL),
    scenario(Tier.FULL, SMALL_LRC, "erasure-pairs"),
)
