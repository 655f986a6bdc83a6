"""Chooses a lab's provider: the named one, or the cheapest that can do what is needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.nearest import unknown
from cephlab.lab.providers.base import Provider
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec


def _container() -> Provider:
    # The docker library takes a moment to import, and `cephlab --help` should not wait for it.
    from cephlab.lab.providers.container import ContainerProvider

    return ContainerProvider()


def _uml() -> Provider:
    from cephlab.lab.providers.guest.provider import uml

    return uml()


def _lxd() -> Provider:
    from cephlab.lab.providers.lxd import LxdProvider

    return LxdProvider()


def _lxd_vm() -> Provider:
    from cephlab.lab.providers.lxd import LxdProvider
    from cephlab.lab.providers.lxd.machines import VirtualMachines

    return LxdProvider(VirtualMachines())


def _qemu() -> Provider:
    from cephlab.lab.providers.guest.provider import qemu

    return qemu()


PROVIDERS: Mapping[str, Callable[[], Provider]] = {
    "local": LocalProvider,
    "container": _container,
    "lxd": _lxd,
    "uml": _uml,
    "qemu": _qemu,
    "lxd-vm": _lxd_vm,
    "ssh": SshProvider,
}

AUTO = "auto"


@dataclass(frozen=True)
class Choice:
    """A provider, and one sentence on why it was chosen."""

    provider: Provider
    reason: str


def provider(name: str, providers: Mapping[str, Callable[[], Provider]] = PROVIDERS) -> Provider:
    """The provider with that name; SpecError lists the known names."""
    if name not in providers:
        raise unknown(f"unknown provider {name!r}", name, (AUTO, *providers), "choose another --lab")
    return providers[name]()


def foreign_runs(name: str, providers: Mapping[str, Callable[[], Provider]] = PROVIDERS) -> bool:
    """Whether the named provider, or any provider for `auto`, can run nodes of the other architecture here."""
    candidates = [provider(candidate, providers) for candidate in (providers if name == AUTO else [name])]
    return any(
        possible.unavailable() is None and Capability.FOREIGN_ARCH in possible.capabilities() for possible in candidates
    )


def choose(
    name: str,
    spec: ClusterSpec,
    needs: frozenset[Capability] = frozenset(),
    providers: Mapping[str, Callable[[], Provider]] = PROVIDERS,
) -> Choice:
    """The named provider, or for `auto` the cheapest that fits. Unavailable says what each one lacks."""
    needed = needs | spec.needs()
    if any(arch is not host_arch() for arch in spec.archs):
        needed |= {Capability.FOREIGN_ARCH}
    if name != AUTO:
        chosen = provider(name, providers)
        reason = _obstacle(chosen, spec, needed)
        if reason is not None:
            raise reason
        return Choice(chosen, f"{name} (chosen by name)")
    refused: list[str] = []
    for candidate in sorted((make() for make in providers.values()), key=lambda offered: offered.cost):
        obstacle = _obstacle(candidate, spec, needed)
        if obstacle is None:
            why = f"; not {', '.join(refused)}" if refused else ""
            return Choice(candidate, f"{candidate.name} (the cheapest provider that can do this{why})")
        refused.append(f"{candidate.name}: {obstacle.what}")
    raise Unavailable(f"no provider can do this here: {'; '.join(refused)}", "", "see `cephlab doctor`")


def _obstacle(candidate: Provider, spec: ClusterSpec, needed: frozenset[Capability]) -> Unavailable | None:
    reason = candidate.unavailable(spec)
    if reason is not None:
        return reason
    lacking = sorted(needed - candidate.capabilities())
    if not lacking:
        return None
    page_sizes = [f"{node.name} asks for pages of {node.page_bytes} bytes" for node in spec.paged()]
    wanted = f"{', '.join(page_sizes)}; " if Capability.PAGE_SIZE in lacking and page_sizes else ""
    return Unavailable(
        f"the {candidate.name} provider has no {', '.join(lacking)}",
        f"{wanted}it can: {', '.join(sorted(candidate.capabilities())) or 'no extra capabilities'}",
        "choose another --lab, or leave it at auto",
    )
