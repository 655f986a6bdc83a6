"""The contract of a provider: what it can do, why it cannot be used, and a launched lab that always cleans up."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from cephlab.lab.base.errors import CleanUp, LabBroken, SpecError, Unavailable, noted_on
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, RunId, remove_tree
from cephlab.lab.images.image import Image
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, DiskLimits, Node

Images = Mapping[Arch, Image]


class Silent(Unavailable):
    """The engine of a provider exists but does not answer, so its content is unknown."""


def nobody_listens(error: BaseException | None) -> bool:
    """Whether an error was caused by a socket that no process serves any more."""
    if error is None:
        return False
    return isinstance(error, ConnectionRefusedError) or nobody_listens(error.__cause__ or error.__context__)


class Lab(Protocol):
    """The running hosts of a run. Disks keep their content when they move or when their host goes down."""

    @property
    def hosts(self) -> Mapping[str, Host]: ...

    @property
    def state(self) -> dict[str, Any]:
        """JSON from which `Provider.attach` finds this lab again."""
        ...

    def add_node(self, node: Node) -> Host:
        """Raise one more machine with its disks."""
        ...

    def kill_node(self, name: str) -> None:
        """Stop a machine at once, with all its processes. Its disks stay."""
        ...

    def start_node(self, name: str) -> Host:
        """Start a killed machine again, with its directory and disks but no processes."""
        ...

    def move_disk(self, disk: str, target: str) -> None:
        """Take a disk out of its node and put it into another. No program on either node may use it."""
        ...

    def close(self) -> None:
        """Remove everything. Continues after an error and raises CleanupFailed at the end."""
        ...


@runtime_checkable
class TakesOver(Protocol):
    """A lab whose provider has TAKE_OVER."""

    def add_node_at(self, node: Node, address: str) -> Host:
        """Raise one more machine with its disks, under the address of a machine that stays switched off."""
        ...


@runtime_checkable
class HoldsImages(Protocol):
    """A lab whose provider has SECOND_IMAGE."""

    def with_image(self, node: str, image: Image) -> Host:
        """The same node, directory, address and disks, with the programs of another image of its architecture."""
        ...


def refuse_foreign(host: Host, image: Image) -> None:
    """SpecError unless the image is of the node's architecture."""
    if image.arch is not host.arch:
        what = f"{host.name} cannot run an image of {image.arch}"
        raise SpecError(what, f"it is {host.arch}", f"use one of {host.arch}")


@runtime_checkable
class HoldsPulled(Protocol):
    """A lab whose provider has PULLED_IMAGE."""

    def pulled_image(self, arch: Arch) -> tuple[str, tuple[str, ...]]:
        """The image that nodes of an architecture are made from: its id, and its digests in registries."""
        ...


@runtime_checkable
class CutsLinks(Protocol):
    """A lab whose provider has CUT_LINKS."""

    def cut(self, source: str, target: str) -> None:
        """Drop packets from one node to another; packets in the other direction still arrive."""
        ...

    def cut_packets(self) -> int:
        """How many packets were lost on the links that are cut now."""
        ...

    def mend_links(self) -> None: ...


@runtime_checkable
class SlowsNetwork(Protocol):
    """A lab whose provider has SLOW_NETWORK."""

    def slow_network(self, node: str, bytes_s: int | None) -> None:
        """Limit everything that a node sends to this rate; None removes the limit."""
        ...

    def held_packets(self, node: str) -> int:
        """How many packets of a node the limit has delayed."""
        ...


@runtime_checkable
class SlowsDisks(Protocol):
    """A lab whose provider has SLOW_DISK."""

    def slow_disks(self, node: str, limits: DiskLimits | None) -> None:
        """Limit all disks of a node together; None restores the limits of the spec."""
        ...


@runtime_checkable
class Unplugs(Protocol):
    """A lab whose provider has PARTITION."""

    def disconnect(self, name: str) -> None:
        """Take a node off the network. Its processes keep running, and the lab still reaches it."""
        ...

    def connect(self, name: str) -> None:
        """Put a node back on the network."""
        ...


@runtime_checkable
class RunsMachines(Protocol):
    """A lab in which each machine, with its kernel, is a process of this machine."""

    def machine_pid(self, node: str) -> int:
        """The process that runs a machine. Its CPU time, with its children's, is the machine's."""
        ...


@runtime_checkable
class SqueezesMemory(Protocol):
    """A lab whose provider has SQUEEZE_MEMORY."""

    def memory_used(self, node: str) -> int:
        """Bytes of a node's programs that the kernel cannot reclaim."""
        ...

    def squeeze_memory(self, node: str, limit_bytes: int | None) -> None:
        """Limit a node's memory from now on; None restores the limit of the spec."""
        ...


class Provider(Protocol):
    """A source of hosts."""

    @property
    def name(self) -> str: ...

    @property
    def cost(self) -> int:
        """Rank for `auto`, which takes the cheapest provider that fits."""
        ...

    def capabilities(self) -> frozenset[Capability]: ...

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        """Why it cannot be used here, or not for this spec; None if it can. Changes nothing on the machine."""
        ...

    def launch(
        self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet
    ) -> AbstractContextManager[Lab]:
        """Raise the spec's nodes. Leaving the block removes them, unless the run is kept.

        progress: called for steps that take long, and for changes to this machine itself.
        """
        ...

    def attach(self, run: Run, state: Mapping[str, Any]) -> Lab:
        """Find the hosts of a kept run again."""
        ...

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        """Remove everything that carries the run's id; returns what was removed, in words."""
        ...

    def leftovers(self, home: Home) -> frozenset[RunId]:
        """Ids of this home's runs that have something here, with or without a directory.

        Empty if the provider is not available at all; LabError when it should answer and does not in time.
        """
        ...


@contextmanager
def removing(run: Run, remove: Callable[[], object]) -> Iterator[None]:
    """Call `remove` after the block, unless the run is kept by then.

    If the block fails, its error is raised, and that of `remove` becomes a note: the first error says what went wrong.
    """
    try:
        yield
    except BaseException as error:
        if not run.kept:
            with noted_on(error, "the clean-up"):
                remove()
        raise
    if not run.kept:
        remove()


def remove_with_folders(run: Run, remove: Callable[[], object], *folders: str) -> None:
    """Call `remove`, then remove folders of the run's directory, also after an error. CleanupFailed has all errors."""
    clean_up = CleanUp()
    with clean_up.step():
        remove()
    for name in folders:
        clean_up.errors += remove_tree(run.directory / name)
    clean_up.end()


@runtime_checkable
class LeavesUnsaid(Protocol):
    """A provider whose nodes share so much with this machine that a run on them proves less than elsewhere."""

    unsaid: ClassVar[str]
    """What a run on its nodes does not prove, and why: one sentence for the report."""


@runtime_checkable
class KeepsImages(Protocol):
    """A provider that copies images into a store of its own."""

    def forget_image(self, image: Image) -> list[str]:
        """Remove the unused copies of a cephlab image; returns in words what happened to each copy."""
        ...

    def other_images(self, keys: Collection[str]) -> list[str]:
        """Copies of cephlab images that have none of these keys, in words, with how to remove them."""
        ...


class Addressable(Protocol):
    """A host of a lab, as far as `LabNodes` needs it. disks: those in it now, by name."""

    @property
    def address(self) -> str: ...
    @property
    def disks(self) -> Mapping[str, object]: ...
    def up(self) -> bool: ...


H = TypeVar("H", bound=Addressable)


class LabNodes(Generic[H]):
    """The part that the labs of all providers share."""

    def __init__(self) -> None:
        self._hosts: dict[str, H] = {}

    @property
    def hosts(self) -> Mapping[str, H]:
        return self._hosts

    def host(self, name: str) -> H:
        """A node by name; SpecError when there is none."""
        if name not in self._hosts:
            raise SpecError(f"there is no node {name!r}", f"nodes: {', '.join(self._hosts)}")
        return self._hosts[name]

    def holder(self, disk: str) -> H:
        """The node that has a disk; LabBroken when no node has it."""
        for host in self._hosts.values():
            if disk in host.disks:
                return host
        raise LabBroken(f"no node has a disk {disk!r}")

    def refuse(self, node: Node) -> None:
        """SpecError for a node or a disk whose name is taken."""
        if node.name in self._hosts:
            raise SpecError(f"a node {node.name!r} already exists", hint="choose another name")
        taken = {disk for host in self._hosts.values() for disk in host.disks}
        for disk in node.disks:
            if disk.name in taken:
                raise SpecError(f"a disk {disk.name!r} already exists", hint="choose another name")

    def refuse_at(self, node: Node, address: str) -> None:
        """As `refuse`, and SpecError when a running machine has the address."""
        self.refuse(node)
        if any(host.address == address and host.up() for host in self._hosts.values()):
            raise SpecError(f"{node.name} cannot have {address}", "a running machine has it", "stop that machine")
