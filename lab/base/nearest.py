"""Finds the known name that a user probably meant by an unknown one."""

import re
from collections.abc import Collection
from difflib import get_close_matches

from cephlab.lab.base.errors import SpecError

_SHOWN, _ALIKE, _ALMOST = 3, 0.7, 0.75
_WITHIN = re.compile(r"[\w-]+")


def nearest(word: str, names: Collection[str]) -> list[str]:
    """Names that contain the word, else names similar to it or with a similar part, the most similar first."""
    low = word.lower()
    having = [name for name in names if low in name.lower()]
    if having:
        return having
    parts: dict[str, list[str]] = {}
    for name in names:
        for part in {name.lower(), name.lower().partition("[")[0], *_WITHIN.findall(name.lower())}:
            parts.setdefault(part, []).append(name)
    return [name for part in get_close_matches(low, parts, n=_SHOWN, cutoff=_ALIKE) for name in parts[part]]


def did_you_mean(word: str, names: Collection[str], otherwise: str = "") -> str:
    """`did you mean NAME?` with the name most like the word, else those that `nearest` finds; `otherwise` for none."""
    near = get_close_matches(word, names, n=1, cutoff=_ALMOST) or nearest(word, names)[:_SHOWN]
    return f"did you mean {' or '.join(near)}?" if word and near else otherwise


def unknown(what: str, word: str, names: Collection[str], otherwise: str = "choose one of these") -> SpecError:
    """The error for a word that is none of the names. what: that, in a sentence; otherwise: as of `did_you_mean`."""
    return SpecError(what, f"known: {', '.join(names)}", did_you_mean(word, names, otherwise))
