"""The picture of the model beside its publications."""

from xml.etree import ElementTree

import pytest

from cephlab.tuning.picture import drawn
from cephlab.tuning.trust import LoadKind, Miss

SVG = "{http://www.w3.org/2000/svg}"


def _dots(text: str) -> dict[str, float]:
    """Figure -> where its dot is from the left."""
    circles = ElementTree.fromstring(text).iter(f"{SVG}circle")
    titled = ((circle.find(f"{SVG}title"), circle) for circle in circles)
    return {str(title.text): float(circle.get("cx", "nan")) for title, circle in titled if title is not None}


def test_each_figure_is_a_dot_by_its_ratio() -> None:
    ratios = {"low": 0.5, "right": 1.0, "high": 2.0, "far": 50.0, "edge": 6.0}
    misses = [Miss("a <bed>", LoadKind.MIX, name, ratio) for name, ratio in ratios.items()]
    text = drawn(misses, ["silent"])
    dots = _dots(text)

    assert len(dots) == 5
    left, right = dots["right: 1.00"] - dots["low: 0.50"], dots["high: 2.00"] - dots["right: 1.00"]
    assert left == pytest.approx(right, abs=0.2)
    assert dots["far: 50.00"] == dots["edge: 6.00"]
    assert "a &lt;bed&gt;" in text
    assert "silent" in text
    assert text.count("nothing of it can be predicted") == 1
