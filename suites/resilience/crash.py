"""Every daemon of the cluster killed at once while clients write, again and again."""

from __future__ import annotations

import os
from functools import partial

from lab.errors import SpecError
from lab.faults import layout_of
from lab.faults.daemons import KillEverything
from lab.scenario import Scenario, Stage, Tier
from lab.workloads.recorded import Kind
from suites.resilience.trial import (
    EXPECTED,
    THREE,
    again_and_again,
    linger,
)

ROUNDS_VARIABLE = "CEPHLAB_CRASH_ROUNDS"
"""Environment variable with the number of rounds, in place of that of the tier: fifty may be cut into several runs."""
ROUNDS = {Tier.QUICK: 2, Tier.FULL: 50}
BEFORE_S = (0.2, 2.0)
DARK_S = (0.0, 1.0)


def crash(stage: Stage, of: Kind = "objects") -> None:
    """Rounds in which every daemon is killed, and started after a random while."""
    wanted = rounds(os.environ.get(ROUNDS_VARIABLE), stage.tier)
    everything = KillEverything.aim(layout_of(stage.cluster), stage.rng)
    dark = partial(linger, stage.rng, *DARK_S)
    took = again_and_again(stage, everything, wanted, before_s=BEFORE_S, meanwhile=dark, of=of)
    stage.recorder.record("figure", metric="median_return_s", value=sorted(took)[len(took) // 2], unit="s")


def rounds(text: str | None, tier: Tier) -> int:
    """How many rounds; SpecError when the environment says something that is no number of them."""
    if text is None:
        return ROUNDS[tier]
    if not text.isdecimal() or int(text) < 1:
        raise SpecError(f"{ROUNDS_VARIABLE} is no number of rounds", f"got {text!r}, wanted 1 or more", "leave it out")
    return int(text)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="resilience.crash-everything",
        goal="When everything crashes at once while clients write, nothing acknowledged is lost and all returns.",
        method="Kills every daemon at random moments of a recorded load, starts all, waits for health, reads back.",
        run=crash,
        check="recorded",
        topology=THREE,
        expects=EXPECTED,
    ),
    Scenario(
        name="resilience.crash-everything[load=blocks]",
        goal="When everything crashes at once while clients write to an RBD image, no acknowledged block is lost.",
        method="As crash-everything, with blocks of 4 KiB of an image, uncached, in place of objects.",
        run=partial(crash, of="blocks"),
        check="recorded",
        tier=Tier.FULL,
        topology=THREE,
        expects=EXPECTED,
    ),
)
