"""Figures with units: what they are worth, and what is refused."""

import re

import pytest

from cephlab.tuning.units import UNITS, Measure, digits, parse, show, terabytes


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5 B", Measure.BYTES, 5),
        ("5 KB", Measure.BYTES, 5e3),
        ("5 MB", Measure.BYTES, 5e6),
        ("5 GB", Measure.BYTES, 5e9),
        ("5 TB", Measure.BYTES, 5e12),
        ("5 PB", Measure.BYTES, 5e15),
        ("5 KiB", Measure.BYTES, 5 * 1024),
        ("5 MiB", Measure.BYTES, 5 * 1024**2),
        ("5 GiB", Measure.BYTES, 5 * 1024**3),
        ("5 TiB", Measure.BYTES, 5 * 1024**4),
        ("5 PiB", Measure.BYTES, 5 * 1024**5),
        ("5 EB", Measure.BYTES, 5e18),
        ("5 EiB", Measure.BYTES, 5 * 1024**6),
        ("5 B/s", Measure.RATE, 5),
        ("5 bytes/s", Measure.RATE, 5),
        ("100 Gbit/s", Measure.RATE, 12.5e9),
        ("100 Gbps", Measure.RATE, 12.5e9),
        ("100 Gbits/s", Measure.RATE, 12.5e9),
        ("8 Mbit/sec", Measure.RATE, 1e6),
        ("5 GBps", Measure.RATE, 5e9),
        ("540k IOPS", Measure.OPS, 540e3),
        ("540kIOPS", Measure.OPS, 540e3),
        ("540K IOPS", Measure.OPS, 540e3),
        ("1.25M iops", Measure.OPS, 1.25e6),
        ("1 op/s", Measure.OPS, 1),
        ("20 \u00b5s", Measure.TIME, 20e-6),
        ("20 \u03bcs", Measure.TIME, 20e-6),
        ("5 MB/s", Measure.RATE, 5e6),
        ("5 GB/s", Measure.RATE, 5e9),
        ("5 MiB/s", Measure.RATE, 5 * 1024**2),
        ("5 GiB/s", Measure.RATE, 5 * 1024**3),
        ("8 Mb/s", Measure.RATE, 1e6),
        ("8 Gb/s", Measure.RATE, 1e9),
        ("5 s", Measure.TIME, 5),
        ("5 ms", Measure.TIME, 5e-3),
        ("5 us", Measure.TIME, 5e-6),
        ("5 min", Measure.TIME, 300),
        ("5 h", Measure.TIME, 18_000),
        ("5 IOPS", Measure.OPS, 5),
        ("5 ops/s", Measure.OPS, 5),
        ("5 points", Measure.SPEED, 5),
        ("5 W", Measure.POWER, 5),
        ("5 objects", Measure.OBJECTS, 5),
        ("5 ops/s/W", Measure.WORK, 5),
        ("  2.5ms ", Measure.TIME, 2.5e-3),
        ("0.5 s", Measure.TIME, 0.5),
    ],
)
def test_a_figure_is_worth_its_unit(text: str, kind: Measure, value: float) -> None:
    assert parse(text, kind) == pytest.approx(value, rel=1e-12)


def test_every_unit_is_tried_above() -> None:
    assert sum(len(units) for units in UNITS.values()) == 32
    assert [kind.value for kind in Measure] == ["bytes", "bytes/s", "s", "ops/s", "points", "W", "objects", "ops/s/W"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5", 'a figure above 0 with its unit, e.g. "10 s"; units: s, ms, us, min, h'),
        ("-5 s", 'a figure above 0 with its unit, e.g. "10 s"; units: s, ms, us, min, h'),
        ("5 s s", 'a figure above 0 with its unit, e.g. "10 s"; units: s, ms, us, min, h'),
        ("5 d", "one of the units s, ms, us, min, h"),
        ("5 GB", "one of the units s, ms, us, min, h"),
        ("5 kIOPS", "one of the units s, ms, us, min, h"),
        ("0 s", "a figure above 0"),
        ("9" * 400 + " s", "a finite figure"),
    ],
)
def test_what_is_no_figure_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        parse(text, Measure.TIME)


@pytest.mark.parametrize("text", ["5 s", "5 kW", "5 GB"])
def test_what_is_no_rate_of_operations_is_refused_with_their_units(text: str) -> None:
    with pytest.raises(ValueError, match=r"^one of the units IOPS, ops/s$"):
        parse(text, Measure.OPS)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (3 * 2**60, Measure.BYTES, "3 EiB"),
        (2**60, Measure.BYTES, "1 EiB"),
        (2**60 - 2**50, Measure.BYTES, "1,023 PiB"),
        (2**50, Measure.BYTES, "1 PiB"),
        (2**40, Measure.BYTES, "1 TiB"),
        (2**30, Measure.BYTES, "1 GiB"),
        (2**30 - 1, Measure.BYTES, "1,024 MiB"),
        (5e6, Measure.BYTES, "4.77 MiB"),
        (2048, Measure.BYTES, "2 KiB"),
        (512, Measure.BYTES, "512 B"),
        (1.5e9, Measure.RATE, "1.5 GB/s"),
        (1e9, Measure.RATE, "1 GB/s"),
        (1e12, Measure.RATE, "1,000 GB/s"),
        (2e12, Measure.RATE, "2,000 GB/s"),
        (1e6, Measure.RATE, "1 MB/s"),
        (999, Measure.RATE, "999 B/s"),
        (1, Measure.TIME, "1 s"),
        (0.25, Measure.TIME, "250 ms"),
        (2e-5, Measure.TIME, "20 us"),
        (2e-8, Measure.TIME, "0.02 us"),
        (0, Measure.TIME, "0 us"),
        (-0.25, Measure.TIME, "-250 ms"),
        (1000, Measure.OPS, "1 kops/s"),
        (15_000, Measure.OPS, "15 kops/s"),
        (150, Measure.OPS, "150 ops/s"),
        (2.5, Measure.SPEED, "2.5 points"),
        (200, Measure.POWER, "200 W"),
        (8.8e9, Measure.OBJECTS, "8.8 billion objects"),
        (1e9, Measure.OBJECTS, "1 billion objects"),
        (1e6, Measure.OBJECTS, "1 million objects"),
        (999, Measure.OBJECTS, "999 objects"),
        (222, Measure.WORK, "222 ops/s/W"),
        (999.4, Measure.OPS, "999 ops/s"),
        (999.7, Measure.OPS, "1,000 ops/s"),
        (-2e12, Measure.RATE, "-2,000 GB/s"),
    ],
)
def test_a_figure_is_shown_with_the_largest_unit_that_fits(value: float, kind: Measure, text: str) -> None:
    assert show(value, kind) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0.0, "0 TB"),
        (12.346e9, "0.01235 TB"),
        (123.46e12, "123.5 TB"),
        (-123.46e12, "-123.5 TB"),
        (9999.4e12, "9,999 TB"),
        (9999.5e12, "9.999 PB"),
        (9999.6e12, "10 PB"),
        (9999.4e15, "9,999 PB"),
        (9999.5e15, "9.999 EB"),
        (9999.6e15, "10 EB"),
        (12.34567e18, "12.35 EB"),
        (123456e18, "123,456 EB"),
    ],
)
def test_a_size_is_in_the_unit_of_disks(size_bytes: float, text: str) -> None:
    assert terabytes(size_bytes) == text


@pytest.mark.parametrize(("value", "text"), [(99.4, "99.4"), (999.4, "999"), (999.5, "1,000"), (12345.6, "12,346")])
def test_a_figure_has_no_exponent(value: float, text: str) -> None:
    assert digits(value, 3) == text
