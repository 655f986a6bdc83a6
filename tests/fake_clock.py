"""A clock that tests move."""

from dataclasses import dataclass, field


@dataclass
class VirtualClock:
    """Sleeping moves it at once and is recorded."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
