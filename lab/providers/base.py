"""The contract of a provider: what it can do, why it cannot, and a launched lab that always cleans up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, runtime_checkable

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.images.image import Image
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, DiskLimits, Node

Images = Mapping[Arch, Image]


class Silent(Unavailable):
    """What a provider works with is there and does not answer: nobody knows what it holds."""


def nobody_listens(error: BaseException | None) -> bool:
    """Whether an error comes of a socket that no process serves any more."""
    if error is None:
        return False
    return isinstance(error, ConnectionRefusedError) or nobody_listens(error.__cause__ or error.__context__)


class Lab(Protocol):
    """Hosts that exist. Disks keep their content when they move or when their host goes away."""

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
        """The machine dies at once with all its processes; its disks stay."""
        ...

    def start_node(self, name: str) -> Host:
        """Bring a killed machine back, with its directory and disks but no processes."""
        ...

    def move_disk(self, disk: str, target: str) -> None:
        """Pull a disk out of its node and put it into another; nothing on either may be using it."""
        ...

    def close(self) -> None:
        """Remove everything; goes on after an error and raises CleanupFailed at the end."""
        ...


@runtime_checkable
class TakesOver(Protocol):
    """What a lab whose provider has TAKE_OVER can do beyond the rest."""

    def add_node_at(self, node: Node, address: str) -> Host:
        """Raise one more machine with its disks, under the address of one that is switched off for good."""
        ...


@runtime_checkable
class HoldsImages(Protocol):
    """What a lab whose provider has SECOND_IMAGE can do beyond the rest."""

    def with_image(self, node: str, image: Image) -> Host:
        """The same node, its directory, address and disks, with the programs of another image of its architecture."""
        ...


@runtime_checkable
class HoldsPulled(Protocol):
    """What a lab whose provider has PULLED_IMAGE can do beyond the rest."""

    def pulled_image(self, arch: Arch) -> tuple[str, tuple[str, ...]]:
        """Id, and digests by which registries name it, of the image that the nodes of an architecture are made from."""
        ...


@runtime_checkable
class CutsLinks(Protocol):
    """What a lab whose provider has CUT_LINKS can do beyond the rest."""

    def cut(self, source: str, target: str) -> None:
        """Packets from one node no longer reach another; those in the other direction do."""
        ...

    def cut_packets(self) -> int:
        """How many packets have been lost on links that are cut now."""
        ...

    def mend_links(self) -> None:
        """Every cut is undone."""
        ...


@runtime_checkable
class SlowsNetwork(Protocol):
    """What a lab whose provider has SLOW_NETWORK can do beyond the rest."""

    def slow_network(self, node: str, bytes_s: int | None) -> None:
        """Limit all that a node sends to this rate; None: no limit any more."""
        ...

    def held_packets(self, node: str) -> int:
        """How many packets of a node had to wait because of the limit."""
        ...


@runtime_checkable
class SlowsDisks(Protocol):
    """What a lab whose provider has SLOW_DISK can do beyond the rest."""

    def slow_disks(self, node: str, limits: DiskLimits | None) -> None:
        """A node's disks, all together, get these ceilings; None: the spec's own again."""
        ...


@runtime_checkable
class RunsMachines(Protocol):
    """What a lab can do beyond the rest when each machine, with its kernel, is a process of this one."""

    def machine_pid(self, node: str) -> int:
        """The process that runs a machine; the machine's CPU time is that of this process and its children."""
        ...


@runtime_checkable
class SqueezesMemory(Protocol):
    """What a lab whose provider has SQUEEZE_MEMORY can do beyond the rest."""

    def memory_used(self, node: str) -> int:
        """Bytes of a node's programs that the kernel cannot reclaim."""
        ...

    def squeeze_memory(self, node: str, limit_bytes: int | None) -> None:
        """Limit a node's memory from now on; None: to what its spec says."""
        ...


class Provider(Protocol):
    """Where hosts come from."""

    @property
    def name(self) -> str: ...

    @property
    def cost(self) -> int:
        """Rank for `auto`: the cheapest that fits is taken."""
        ...

    def capabilities(self) -> frozenset[Capability]: ...

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        """Why it cannot serve here (this spec), or None. Changes nothing on the machine."""
        ...

    def launch(
        self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet
    ) -> AbstractContextManager[Lab]:
        """Raise the spec's nodes. Leaving the block removes them, unless the run is kept by then.

        progress: told what takes long, and above all what is changed on this machine itself.
        """
        ...

    def attach(self, run: Run, state: Mapping[str, Any]) -> Lab:
        """Find the hosts of a kept run again."""
        ...

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        """Remove whatever carries the run's id; returns what was removed, in words."""
        ...

    def leftovers(self, home: Home) -> frozenset[RunId]:
        """Ids of this home's runs that have something here, whether or not they have a directory still.

        Empty where the provider is not available at all; LabError when it should answer and does not do so soon.
        """
        ...


@runtime_checkable
class LeavesUnsaid(Protocol):
    """What a provider has beyond the rest whose nodes share more with this machine than those of others."""

    unsaid: ClassVar[str]
    """What a run on its nodes says nothing about, and why: one sentence for the report."""


@runtime_checkable
class KeepsImages(Protocol):
    """What a provider has beyond the rest that copies images into a place of its own."""

    def forget_image(self, image: Image) -> list[str]:
        """Remove the copies of an image of ours that nothing is made from; what became of each, in words."""
        ...

    def other_images(self, keys: Collection[str]) -> list[str]:
        """Copies of images of ours that have none of these keys, in words, with how to remove them."""
        ...
