"""Demands as text: titles, units and table rows, for commands and reports."""

import math
from collections.abc import Iterator

from cephlab.lab.telemetry.demand import Demand, Interval, Operation, Resource, Role

_SECONDS = {Resource.CPU_USER_S, Resource.CPU_SYSTEM_S}
_BYTES = {resource for resource in Resource if resource.value.endswith("_bytes")}
NAMES = {
    Resource.CPU_USER_S: "CPU, user",
    Resource.CPU_SYSTEM_S: "CPU, system",
    Resource.INSTRUCTIONS: "instructions",
    Resource.DEVICE_READS: "device reads",
    Resource.DEVICE_READ_BYTES: "read from device",
    Resource.DEVICE_WRITES: "device writes",
    Resource.DEVICE_WRITE_BYTES: "written to device",
    Resource.WIRE_SENT_BYTES: "sent",
    Resource.WIRE_RECEIVED_BYTES: "received",
    Resource.WIRE_SENT_PACKETS: "packets sent",
    Resource.WIRE_RECEIVED_PACKETS: "packets received",
}


def operation_text(operation: Operation) -> str:
    """`randwrite 4 KiB at depth 16 on 3 copies`, with the number of clients if there are several."""
    clients = f" by {operation.clients} clients" if operation.clients > 1 else ""
    size = size_text(operation.block_bytes)
    return f"{operation.name} {size} at depth {operation.depth} on {operation.protection}{clients}"


def title(demand: Demand) -> str:
    """What was measured, and on what."""
    emulated = ", emulated" if demand.emulated else ""
    return f"{operation_text(demand.operation)}: {demand.release} {demand.arch}{emulated} ({demand.image[:12]})"


def rows(demand: Demand) -> Iterator[tuple[str, str, str, str]]:
    """(role, resource, mean, interval) of every cost that is not 0."""
    for role in Role:
        for resource in Resource:
            interval = demand.costs.get(role, {}).get(resource)
            if interval is not None and (interval.mean or interval.low or interval.high):
                yield role.value, NAMES[resource], amount(interval.mean, resource), interval_text(interval, resource)


def interval_text(interval: Interval, resource: Resource) -> str:
    """`180 us to 195 us (n = 12)`."""
    if not math.isfinite(interval.low):
        return "unknown: one batch"
    return f"{amount(interval.low, resource)} to {amount(interval.high, resource)} (n = {interval.samples})"


def amount(value: float, resource: Resource) -> str:
    """A figure with its unit."""
    if resource in _SECONDS:
        return seconds_text(value)
    if resource in _BYTES:
        return f"{value:.0f} B"
    return f"{value:.3g}"


def seconds_text(value: float) -> str:
    """Microseconds, or milliseconds from 10 ms on."""
    return f"{value * 1e3:.2f} ms" if abs(value) >= 1e-2 else f"{value * 1e6:.1f} us"


def size_text(size_bytes: int) -> str:
    """`4 KiB`, `4 MiB`."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"
