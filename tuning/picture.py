"""The model compared with publications as a picture: predicted over published for each figure, by test bed, as SVG."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from cephlab.tuning.trust import LoadKind, Miss

_WIDTH, _LEFT, _ROW, _TOP = 900.0, 130.0, 34.0, 30.0
_LOW, _HIGH = 0.25, 6.0
_TICKS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
_DOT = 4.0
_LANES = 5
"""Dots of one row are spread over this many heights, in turn, so that equal ones do not cover each other."""
_LINE, _TEXT = 18.0, "#444"
_TONES = ("#7a7a7a", "#1a7f4b", "#9a6700", "#8a3ba8", "#33698c", "#b3261e", "#0b8a8a", "#c2578a")


def drawn(misses: Sequence[Miss], unpredicted: Sequence[str] = ()) -> str:
    """An SVG document. unpredicted: publications of which the model can predict nothing."""
    beds = sorted({miss.bed for miss in misses})
    rows = [*beds, *unpredicted]
    kinds = [kind for kind in LoadKind if any(miss.kind is kind for miss in misses)]
    bottom = _TOP + len(rows) * _ROW
    height = bottom + 30 + -(-len(kinds) // 3) * _LINE
    parts = [*_axis(bottom)]
    for number, bed in enumerate(rows):
        middle = _TOP + (number + 0.5) * _ROW
        parts.append(_words(_LEFT - 10, middle + 4, bed, "end"))
        if bed in unpredicted:
            parts.append(_words(_x(1.0) + 8, middle + 4, "nothing of it can be predicted", "start"))
        parts += _dots([miss for miss in misses if miss.bed == bed], middle)
    parts += _legend(kinds, bottom + 40)
    title = "Predicted over published, each test bed left out of the fit"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{title}</title>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _x(ratio: float) -> float:
    clamped = min(_HIGH, max(_LOW, ratio))
    return _LEFT + (_WIDTH - _LEFT - 20) * math.log(clamped / _LOW) / math.log(_HIGH / _LOW)


def _axis(bottom: float) -> Iterator[str]:
    left, width = _x(0.5), _x(2) - _x(0.5)
    yield f'<rect x="{left:.1f}" y="{_TOP:g}" width="{width:.1f}" height="{bottom - _TOP:g}" fill="#eef3ee"/>'
    for tick in _TICKS:
        tone = "#444" if tick == 1 else "#ccc"
        yield f'<path d="M{_x(tick):.1f} {_TOP:g}V{bottom:g}" stroke="{tone}"/>'
        yield _words(_x(tick), _TOP - 8, f"{tick:g}", "middle")


def _dots(misses: Sequence[Miss], middle: float) -> Iterator[str]:
    order = list(LoadKind)
    for number, miss in enumerate(sorted(misses, key=lambda miss: miss.ratio)):
        height = middle + (number % _LANES - _LANES // 2) * (_ROW - 3 * _DOT) / _LANES
        tone = _TONES[order.index(miss.kind)]
        label = escape(f"{miss.figure}: {miss.ratio:.2f}")
        yield (
            f'<circle cx="{_x(miss.ratio):.1f}" cy="{height:.1f}" r="{_DOT:g}" fill="{tone}" fill-opacity="0.75">'
            f"<title>{label}</title></circle>"
        )


def _legend(kinds: Sequence[LoadKind], top: float) -> Iterator[str]:
    order = list(LoadKind)
    for number, kind in enumerate(kinds):
        left, middle = _LEFT + number % 3 * 240, top + number // 3 * _LINE
        yield f'<circle cx="{left:g}" cy="{middle - 4:g}" r="{_DOT:g}" fill="{_TONES[order.index(kind)]}"/>'
        yield _words(left + 10, middle, kind.value, "start")


def _words(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{_TEXT}">{escape(words)}</text>'
