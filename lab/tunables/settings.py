"""Defines a setting of a tuning, its state on a machine, and the outcome of changing it."""

from dataclasses import dataclass
from enum import StrEnum, auto


class Kind(StrEnum):
    """Where a setting is made.

    cmdline: a word of the kernel command line; bios: firmware; manual: anything else that only a person can set.
    """

    SYSCTL = "sysctl"
    SYSFS = "sysfs"
    MTU = "mtu"
    SWAP = "swap"
    LIMITS = "limits"
    CMDLINE = "cmdline"
    CEPH = "ceph"
    BIOS = "bios"
    MANUAL = "manual"


class Scope(StrEnum):
    """What a setting applies to: a cluster, a network namespace, a file system, or a whole kernel."""

    CLUSTER = auto()
    NETWORK = auto()
    FILES = auto()
    KERNEL = auto()


@dataclass(frozen=True)
class Setting:
    """One wanted setting. section: of a Ceph option (global, osd, client, ...); source: paper and place in it."""

    kind: Kind
    key: str
    value: str
    source: str
    section: str = ""
    note: str = ""

    @property
    def title(self) -> str:
        """The setting as shown to the user."""
        if self.kind is Kind.CEPH:
            return f"ceph {self.section}/{self.key} = {self.value}"
        if self.kind is Kind.CMDLINE:
            return f"kernel command line: {self.key}"
        return f"{self.kind} {self.key} = {self.value}"

    @property
    def scope(self) -> Scope:
        if self.kind is Kind.CEPH:
            return Scope.CLUSTER
        if self.kind is Kind.MTU or (self.kind is Kind.SYSCTL and self.key.startswith("net.")):
            return Scope.NETWORK
        return Scope.FILES if self.kind is Kind.LIMITS else Scope.KERNEL

    @property
    def by_hand(self) -> bool:
        """Whether only a person can set it, because no program can on a running machine."""
        return self.kind in (Kind.CMDLINE, Kind.BIOS, Kind.MANUAL)


class State(StrEnum):
    """The state of a setting. drift: it has another value; unseen: nothing on the machine shows it."""

    SET = "set"
    DRIFT = "drift"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNSEEN = "unseen"


@dataclass(frozen=True)
class Finding:
    """The state of a setting in one place. got: its value, for display; why: an explanation."""

    where: str
    setting: Setting
    state: State
    got: str = ""
    why: str = ""


class SettingOutcome(StrEnum):
    """The outcome of applying a setting.

    already: it was already set; waits: set, but daemons use it only after a restart; by-hand: only a person can set it;
    shared: not changed, because others use the machine too.
    """

    DONE = "done"
    ALREADY = "already"
    WAITS = "waits"
    REFUSED = "refused"
    MISSING = "missing"
    BY_HAND = "by-hand"
    SHARED = "shared"


@dataclass(frozen=True)
class SettingChange:
    """The outcome for a setting in one place."""

    where: str
    setting: Setting
    outcome: SettingOutcome
    why: str
