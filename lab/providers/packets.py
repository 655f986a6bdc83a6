"""Packets that get lost on purpose: rules of this machine's packet filter, in its own or a container's network."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cephlab.lab.base import process
from cephlab.lab.base.errors import CleanupFailed, LabError

_WAIT_S = "10"  # the filter's lock is the whole machine's
_COUNT = re.compile(r" -c (\d+) \d+")


@dataclass(frozen=True)
class PacketFilter:
    """Rules that carry a mark, in one network namespace; no other rule is ever touched.

    mark: letters, digits and `:.-_/`, 255 at most. inside: a process whose network it is; None is this machine's own.
    """

    mark: str
    inside: int | None = None

    def drop(self, source: str, target: str) -> None:
        """Packets from one IPv4 address to another are lost on their way in."""
        rule = ("-s", source, "-d", target, "-m", "comment", "--comment", self.mark, "-j", "DROP")
        self._iptables("-I", "INPUT", "1", *rule)

    def dropped(self) -> int:
        """Packets lost by the rules that there are now."""
        return sum(int(count[1]) for rule in self._rules("-v") if (count := _COUNT.search(rule)))

    def clear(self) -> int:
        """Remove every rule with the mark; how many there were. Goes on after an error, CleanupFailed at the end."""
        rules = self._rules()
        errors = []
        for rule in rules:
            try:
                self._iptables("-D", *rule.replace('"', "").split()[1:])
            except LabError as error:
                errors.append(str(error))
        if errors:
            raise CleanupFailed(errors)
        return len(rules)

    def _rules(self, *options: str) -> list[str]:
        listed = self._iptables(*options, "-S", "INPUT").splitlines()
        return [rule for rule in listed if rule.startswith("-A") and self.mark in rule.replace('"', " ").split()]

    def _iptables(self, *arguments: str) -> str:
        enter = () if self.inside is None else ("nsenter", "--net", "--target", str(self.inside), "--")
        return process.run((*enter, "iptables", "-w", _WAIT_S, *arguments)).stdout


def marked(prefix: str) -> Mapping[str, int]:
    """Marks that begin so, in this machine's own network -> how many rules have them."""
    listed = process.run(("iptables", "-w", _WAIT_S, "-S", "INPUT")).stdout
    counts: dict[str, int] = {}
    for word in (word for rule in listed.splitlines() for word in rule.replace('"', " ").split()):
        if word.startswith(prefix):
            counts[word] = counts.get(word, 0) + 1
    return counts


def obstacle(programs: Iterable[str] = ("iptables",)) -> str | None:
    """Why rules cannot be made here, or None. Changes nothing."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    if os.geteuid() != 0:
        return "only root may make them"
    looked = process.run(("iptables", "-w", _WAIT_S, "-S", "INPUT"), check=False)
    return None if looked.code == 0 else looked.stderr.strip()
