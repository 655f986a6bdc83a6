"""Numbers for readers: a count with its noun, a duration, a figure with three digits and an SI prefix; Student's t."""

_UP = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_DOWN = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))
_PLAIN = ("share",)


def how_many(count: float, thing: str, things: str = "") -> str:
    """`1 client`, `2 clients`, `1.5 clients`. things: the plural, if it is more than an added s."""
    number = str(count) if isinstance(count, int) else f"{count:.4g}"
    return f"{number} {thing if number == '1' else things or f'{thing}s'}"


def duration(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes} min {left} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def percent(share: float, form: str = ".1f") -> str:
    """`5.6 %`, with the space that SI wants before the sign."""
    return f"{100 * share:{form}} %"


def rise(ratio: float) -> str:
    """`+5.6 %`: how much larger something is afterwards, from its ratio to before; negative if smaller."""
    return percent(ratio - 1, "+.1f")


def si(value: float, unit: str) -> str:
    """`176 kops/s`, `4.28 GB/s`, `1.45 ms`, `4,500 s`, `0.49`: three digits, and the unit with its prefix."""
    if value == 0 or unit in _PLAIN:
        return f"{value:.3g}" if unit in _PLAIN else f"0 {_short(unit)}".strip()
    if unit == "s":
        size, prefix = next(((size, prefix) for size, prefix in _DOWN if abs(value) >= size), _DOWN[-1])
        return f"{_digits(value / size)} {prefix}s"
    size, prefix = next(((size, prefix) for size, prefix in _UP if abs(value) >= size), (1.0, ""))
    return f"{_digits(value / size)} {prefix}{_short(unit)}".strip()


def six_digits(value: float) -> str:
    """`2,256,526`, `530,590`, `52.6552`: six digits, since a figure may be close to its limit, and no exponent."""
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.6g}"


def _short(unit: str) -> str:
    return {"bytes/s": "B/s", "bytes": "B"}.get(unit, unit)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def t_quantile(freedom: float, confidence: float) -> float:
    """Student's t: this many standard errors on either side of a mean hold the truth with that confidence."""
    from scipy.special import stdtrit  # takes a third of a second to import, and most processes never need it

    return float(stdtrit(freedom, (1 + confidence) / 2))
