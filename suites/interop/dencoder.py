"""Every type of ceph-dencoder: one architecture encodes it, and the other must decode it to the same JSON."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import CommandFailed, LabBroken, Unavailable
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.sides import ArchSide, each, sides

BATCH = 150  # instances per process: an emulated start costs half a second, and a command line has a limit
REFUSED = "refused: "
LEAST_SHARE = 0.5
"""Of the types, those with an instance that was compared. ceph-dencoder makes no instances of messages, which are about
a sixth of its types (MessageDencoderImpl in Ceph's source), so a sound cluster has more than this, but not all."""
_SHOWN = 5
_TOOL_S = 120.0


@dataclass(frozen=True)
class Instance:
    """One test instance of a type. file: its encoding, below a side's directory."""

    kind: str
    number: int
    file: str

    @property
    def label(self) -> str:
        return f"{self.kind} #{self.number}"


Commands = Callable[[ArchSide, Instance], list[str]]
"""Commands for ceph-dencoder with one instance. They end with exactly one `dump_json`."""


def run(stage: Stage) -> None:
    """Let both architectures encode everything, exchange the files, decode them, and compare."""
    with sides(stage.cluster, "dencoder") as between:
        types = each(between, known_types)
        for arch, names in types.items():
            if not names:
                raise Unavailable(
                    f"the {arch} image's ceph-dencoder has no type modules",
                    "`ceph-dencoder list_types` lists no types",
                    "use a release whose packages have the directory ceph/denc, or upstream's container image",
                )
        first, *others = types
        instances = each(between, lambda side: enumerate_instances(side, types[side.arch]))
        for arch in others:
            stage.recorder.observe(
                f"types of {arch}", got=types[arch] == types[first], wanted=True, types=len(types[arch])
            )
            stage.recorder.observe(f"instances of {arch}", got=len(instances[arch]), wanted=len(instances[first]))
        written = each(between, lambda side: dump(side, instances[first], encoding))
        archives = each(between, pack)
        refused = {
            arch: sorted(label for label, text in texts.items() if text.startswith(REFUSED))
            for arch, texts in written.items()
        }
        for arch in others:
            title = f"instances that {arch} cannot encode"
            stage.recorder.observe(title, got=refused[arch], wanted=refused[first], of=len(written[arch]))

        share = len(encoded_by_all(instances[first], written.values())) / len(types[first])
        stage.recorder.witness("share of types with an instance that both encode", got=share, least=LEAST_SHARE)

        def read(side: ArchSide) -> dict[str, str]:
            unpack(side, archives[side.arch.other])
            return dump(side, instances[first], decoding)

        for arch, decoded in each(between, read).items():
            wanted = written[arch.other]
            wrong = differing(decoded, wanted)
            encoded = sum(not text.startswith(REFUSED) for text in wanted.values())
            stage.recorder.observe(
                f"instances that {arch} decodes differently",
                got=wrong[:_SHOWN],
                wanted=[],
                of=encoded,
            )


def encoded_by_all(instances: Sequence[Instance], written: Collection[Mapping[str, str]]) -> set[str]:
    """The types with an instance that no architecture refuses to encode. Only these are compared."""
    encoded = (each for each in instances if not any(texts[each.label].startswith(REFUSED) for texts in written))
    return {each.kind for each in encoded}


def differing(decoded: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Instances whose JSON differs, without those that the encoding architecture itself refuses."""
    return sorted(
        label for label, text in wanted.items() if not text.startswith(REFUSED) and decoded.get(label) != text
    )


def known_types(side: ArchSide) -> list[str]:
    try:
        return dencoder(side, ["list_types"]).split()
    except CommandFailed:
        return []


def enumerate_instances(side: ArchSide, types: Sequence[str]) -> list[Instance]:
    """Every test instance of every type. ceph-dencoder numbers them from 1."""
    counts = dencoder(side, [word for kind in types for word in ("type", kind, "count_tests")]).split()
    if len(counts) != len(types):
        raise LabBroken(f"ceph-dencoder on {side.host.name} counted {len(counts)} of {len(types)} types")
    pairs = [(kind, number) for kind, count in zip(types, counts, strict=True) for number in range(1, int(count) + 1)]
    return [Instance(kind, number, f"files/{index}") for index, (kind, number) in enumerate(pairs)]


def encoding(side: ArchSide, instance: Instance) -> list[str]:
    # Decode the encoded bytes before the dump, because a field that is not encoded cannot reach the other side.
    path = str(side.path(instance.file))
    return ["type", instance.kind, "select_test", str(instance.number), "encode", "export", path, "decode", "dump_json"]


def decoding(side: ArchSide, instance: Instance) -> list[str]:
    return ["type", instance.kind, "import", str(side.path(instance.file)), "decode", "dump_json"]


def dump(side: ArchSide, instances: Sequence[Instance], commands: Commands) -> dict[str, str]:
    """Label -> JSON text, or the reason why ceph-dencoder refused."""
    side.host.make_directory(side.path("files"))
    texts: dict[str, str] = {}
    for start in range(0, len(instances), BATCH):
        texts |= _dump_batch(side, instances[start : start + BATCH], commands)
    return texts


def _dump_batch(side: ArchSide, batch: Sequence[Instance], commands: Commands) -> dict[str, str]:
    """Dump a batch in one process. If an instance crashes it, halve the batch until that instance is alone."""
    try:
        texts = documents(dencoder(side, [word for instance in batch for word in commands(side, instance)]))
    except CommandFailed as error:
        if len(batch) == 1:
            return {batch[0].label: REFUSED + (error.stderr.strip().splitlines() or ["no reason given"])[-1]}
        texts = []
    if len(texts) == len(batch):
        return {instance.label: text for instance, text in zip(batch, texts, strict=True)}
    if len(batch) == 1:
        return {batch[0].label: REFUSED + f"{len(texts)} JSON documents for one instance"}
    middle = len(batch) // 2
    return {**_dump_batch(side, batch[:middle], commands), **_dump_batch(side, batch[middle:], commands)}


def documents(output: str) -> list[str]:
    """The JSON objects in the output of `dump_json`. Each ends with a brace alone on its line."""
    return [text + "\n}" for text in output.removesuffix("\n").removesuffix("\n}").split("\n}\n")] if output else []


def dencoder(side: ArchSide, commands: Sequence[str]) -> str:
    modules = side.host.root / "usr/lib" / side.arch.triplet / "ceph/denc"
    argv = ["ceph-dencoder", *commands]
    return side.host.run(argv, env={"CEPH_LIB": str(modules)}, timeout_s=_TOOL_S * side.patience).stdout


def pack(side: ArchSide) -> bytes:
    side.host.run(["tar", "-C", str(side.directory), "-cf", str(side.path("files.tar")), "files"])
    return side.get("files.tar")


def unpack(side: ArchSide, archive: bytes) -> None:
    side.host.remove(side.path("files"))
    side.host.run(["tar", "-C", str(side.directory), "-xf", side.put("theirs.tar", archive)])


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="interop.encoding-types",
        goal="Each architecture decodes structures that Ceph stores or sends as the other encoded them.",
        method="Encodes all instances of all types with ceph-dencoder on each, decodes on the other; compares JSON.",
        run=run,
        check="witnessed",
        sees=tuple(f"instances that {arch} decodes differently" for arch in Arch),
    ),
)
