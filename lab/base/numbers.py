"""A count with its noun in the singular or plural."""


def how_many(count: float, thing: str, things: str = "") -> str:
    """`1 client`, `2 clients`, `1.5 clients`. things: the plural, if it is more than an added s."""
    number = str(count) if isinstance(count, int) else f"{count:.4g}"
    return f"{number} {thing if number == '1' else things or f'{thing}s'}"
