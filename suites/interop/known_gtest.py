"""Reads the list of upstream's cases that cannot pass in a small lab, and matches cases with it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import Field

from cephlab.lab.providers.host import Host
from cephlab.lab.spec.specfile import TomlTable, load_model

LIST = Path(__file__).with_name("known-gtest.toml")


class Known(TomlTable):
    """One entry. case: `Suite.name`, with * and ?; run: True runs it as an expected failure, False skips it.

    lab: the provider on whose machines it holds, except emulated ones; empty for any.
    """

    program: Annotated[str, Field(pattern="^ceph_test_")]
    case: Annotated[str, Field(pattern=r"^[\w*?/]+\.[\w*?/]+$")]
    reason: Annotated[str, Field(min_length=20)]
    run: bool = True
    lab: str = ""

    def holds_on(self, lab: str, *, emulated: bool) -> bool:
        return not self.lab or (self.lab == lab and not emulated)

    def covers(self, program: str, case: str) -> bool:
        return program == self.program and fnmatchcase(case, self.case)


class _List(TomlTable):
    known: tuple[Known, ...] = ()


def read_known(path: Path = LIST) -> tuple[Known, ...]:
    """The `[[known]]` tables of a file; SpecError names the key that does not fit."""
    return load_model(path, _List, what="a list of known cases", hint="see its other entries").known


def known_on(host: Host, lab: str) -> tuple[Known, ...]:
    """The entries that hold on a provider's host."""
    return tuple(entry for entry in read_known() if entry.holds_on(lab, emulated=host.emulated))


def reason_for(known: Sequence[Known], program: str, case: str) -> str | None:
    """Why a case cannot pass here, or None."""
    return next((entry.reason for entry in known if entry.covers(program, case)), None)


def selection(known: Sequence[Known], program: str, select: str) -> str:
    """A gtest filter with the cases taken away that must not run."""
    left_out = [entry.case for entry in known if entry.program == program and not entry.run]
    if not left_out:
        return select
    # A filter has one dash. All behind it is taken away.
    return ":".join([select if "-" in select else f"{select}-", *left_out]).replace("-:", "-")
