"""Drops packets on purpose, with rules of this machine's packet filter in its own network or a container's."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cephlab.lab.base import process
from cephlab.lab.base.errors import CleanUp

_WAIT_S = "10"  # the whole machine shares the filter's lock
_COUNT = re.compile(r" -c (\d+) \d+")


@dataclass(frozen=True)
class PacketFilter:
    """The rules with a mark in one network namespace. Other rules are never touched.

    mark: at most 255 letters, digits and `:.-_/`. inside: a process in the namespace; None is this machine's own.
    """

    mark: str
    inside: int | None = None

    def drop(self, source: str, target: str) -> None:
        """Drop incoming packets from one IPv4 address to another."""
        rule = ("-s", source, "-d", target, "-m", "comment", "--comment", self.mark, "-j", "DROP")
        self._iptables("-I", "INPUT", "1", *rule)

    def dropped(self) -> int:
        """How many packets the existing rules have dropped."""
        return sum(int(count[1]) for rule in self._rules("-v") if (count := _COUNT.search(rule)))

    def clear(self) -> int:
        """Remove every rule with the mark; returns their number. CleanupFailed at the end if any was not removed."""
        rules = self._rules()
        clean_up = CleanUp()
        for rule in rules:
            with clean_up.step():
                self._iptables("-D", *rule.replace('"', "").split()[1:])
        clean_up.end()
        return len(rules)

    def _rules(self, *options: str) -> list[str]:
        listed = self._iptables(*options, "-S", "INPUT").splitlines()
        return [rule for rule in listed if rule.startswith("-A") and self.mark in rule.replace('"', " ").split()]

    def _iptables(self, *arguments: str) -> str:
        enter = () if self.inside is None else ("nsenter", "--net", "--target", str(self.inside), "--")
        return process.run((*enter, "iptables", "-w", _WAIT_S, *arguments)).stdout


def marked(prefix: str) -> Mapping[str, int]:
    """Marks in this machine's own network that start with `prefix` -> the number of their rules."""
    listed = process.run(("iptables", "-w", _WAIT_S, "-S", "INPUT")).stdout
    return Counter(word for word in listed.replace('"', " ").split() if word.startswith(prefix))


def obstacle(programs: Iterable[str] = ("iptables",)) -> str | None:
    """Why rules cannot be made here, or None. Changes nothing."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    if os.geteuid() != 0:
        return "only root may make packet filter rules"
    listing = process.run(("iptables", "-w", _WAIT_S, "-S", "INPUT"), check=False)
    return None if listing.code == 0 else listing.stderr.strip()
