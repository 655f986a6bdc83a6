"""Handles the Ceph options of a tuning: checks them in every daemon, sets and restores the configuration database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.tunables.machine import same
from cephlab.lab.tunables.settings import Finding, Kind, Setting, State

CLUSTER = "the cluster"

Options = Mapping[tuple[str, str], str | None]
"""(section, option) -> value in the configuration database; None if it has no value."""


class OptionsClient(Protocol):
    """The part of `RadosClient` that is needed here."""

    def mon(self, prefix: str, **arguments: Any) -> Any: ...
    def tell(self, target: str, prefix: str, **arguments: Any) -> Any: ...


@dataclass
class CephOptions:
    """The options of one cluster. daemons: names of its running monitors and OSDs."""

    client: OptionsClient
    daemons: Sequence[str]
    where: str = CLUSTER
    _help: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)

    def database(self) -> dict[tuple[str, str], str]:
        """Every entry of the configuration database that has no mask."""
        entries = self.client.mon("config dump")
        return {(entry["section"], entry["name"]): str(entry["value"]) for entry in entries if not entry.get("mask")}

    def before(self, settings: Sequence[Setting]) -> dict[tuple[str, str], str | None]:
        """The current value in the database of each setting."""
        known = self.database()
        return {(setting.section, setting.key): known.get((setting.section, setting.key)) for setting in settings}

    def judge(self, settings: Sequence[Setting]) -> list[Finding]:
        """The state of each setting, according to the database and the daemons."""
        known = self.database() if settings else {}
        concerned = [name for name in self.daemons if any(concerns(setting, name) for setting in settings)]
        running = {name: self.client.tell(name, "config show") for name in concerned}
        return [self._judge(setting, known, running) for setting in settings]

    def apply(self, settings: Sequence[Setting]) -> dict[tuple[str, str], str]:
        """Set options; returns (section, option) -> why Ceph refused it, for the options that it refused."""
        refused = {}
        for setting in settings:
            try:
                self.client.mon("config set", who=setting.section, name=setting.key, value=setting.value)
            except CephCommandFailed as error:
                refused[setting.section, setting.key] = error.detail.splitlines()[0]
        return refused

    def restore(self, options: Options) -> dict[tuple[str, str], str]:
        """Restore earlier entries of the database; returns (section, option) -> error, for those that it did not."""
        now = self.database()
        for (section, key), value in options.items():
            if now.get((section, key)) == value:
                continue
            if value is None:
                self.client.mon("config rm", who=section, name=key)
            else:
                self.client.mon("config set", who=section, name=key, value=value)
        after = self.database()
        return {
            (section, key): f"{self.where}: {section}/{key} was {value!r} and is now {after.get((section, key))!r}"
            for (section, key), value in options.items()
            if after.get((section, key)) != value
        }

    def _about(self, key: str) -> Mapping[str, Any] | None:
        """Ceph's own description of an option; None if this release has no such option."""
        if key not in self._help:
            try:
                self._help[key] = self.client.mon("config help", key=key)
            except CephCommandFailed:
                self._help[key] = None
        return self._help[key]

    def _judge(
        self, setting: Setting, known: Mapping[tuple[str, str], str], running: Mapping[str, Mapping[str, Any]]
    ) -> Finding:
        if self._about(setting.key) is None:
            return Finding(self.where, setting, State.MISSING, why="this release of Ceph has no such option")
        stored = known.get((setting.section, setting.key))
        values = {
            name: str(running_value[setting.key])
            for name, running_value in running.items()
            if concerns(setting, name) and setting.key in running_value
        }
        wrong = {name: value for name, value in values.items() if not same_option(value, setting.value)}
        if wrong:
            return Finding(self.where, setting, State.DRIFT, got=_by_value(wrong), why=self._why_not(setting, stored))
        if values or (stored is not None and same(stored, setting.value)):
            return Finding(self.where, setting, State.SET, got=setting.value)
        return Finding(self.where, setting, State.DRIFT, got="not set" if stored is None else stored)

    def _why_not(self, setting: Setting, stored: str | None) -> str:
        """Why daemons use another value than the database has; empty if the database does not have the wanted value."""
        if stored is None or not same(stored, setting.value):
            return ""
        if self.waits(setting):
            return "the configuration database has it; daemons use it after their next restart"
        return "the configuration database has it; the daemons' ceph.conf, command line or scheduler overrides it"

    def waits(self, setting: Setting) -> bool:
        """Whether daemons use the option only after a restart."""
        described = self._about(setting.key)
        return bool(described and not described.get("can_update_at_runtime"))


def concerns(setting: Setting, daemon: str) -> bool:
    """Whether a daemon reads options of the setting's section."""
    return setting.kind is Kind.CEPH and setting.section in ("global", daemon, daemon.partition(".")[0])


def same_option(left: str, right: str) -> bool:
    """As `same`, but a debug level alone counts for both log and memory: 1 is 1/1."""
    return same(left, right) or left == f"{right}/{right}"


def _by_value(values: Mapping[str, str]) -> str:
    """`16 in mon.n0, osd.0; 8 in osd.1`."""
    names_by_value: dict[str, list[str]] = {}
    for name, value in values.items():
        names_by_value.setdefault(value, []).append(name)
    return "; ".join(f"{value} in {', '.join(names)}" for value, names in names_by_value.items())
