"""Derivations: the arithmetic of a figure, step by step, with the source of each formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class DerivationStep:
    """One line of a derivation. what: the quantity; how: the arithmetic with its numbers; value: with its unit."""

    what: str
    how: str
    value: str
    source: str = ""

    def __str__(self) -> str:
        tail = f"   [{self.source}]" if self.source else ""
        return f"{self.what}: {self.how} = {self.value}{tail}" if self.how else f"{self.what}: {self.value}{tail}"


@dataclass(frozen=True)
class Derivation:
    """Steps in the order in which they build on each other."""

    steps: tuple[DerivationStep, ...] = ()

    def __iter__(self) -> Iterator[DerivationStep]:
        return iter(self.steps)

    def __add__(self, other: Derivation) -> Derivation:
        return Derivation(self.steps + other.steps)

    def lines(self) -> list[str]:
        return [str(step) for step in self.steps]
