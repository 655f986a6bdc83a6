"""Ceph's own counters (`perf dump`): flattened, subtracted, and summed up as device and wire traffic."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from cephlab.lab.base.errors import output_of
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry.demand import Resource

Counters = Mapping[str, float]
"""`section.name` -> value. For an average, `section.name` is its count and `section.name.sum` its sum in seconds."""

Number = TypeVar("Number", int, float)

EXPLAINING = ("bluestore.", "bluefs.", "rocksdb.", "osd.", "msgr.")


@output_of("`perf dump`")
def flatten(dump: Mapping[str, Any]) -> dict[str, float]:
    """A perf dump as one level. All workers of the messenger become one section `msgr`.

    Pacific prefixes the BlueStore counters with the name of their section; later releases do not.
    """
    numbers: dict[str, float] = {}
    for section, counters in dump.items():
        name = "msgr" if section.startswith("AsyncMessenger::") else section
        for key, value in counters.items():
            short = key.removeprefix("bluestore_") if section == "bluestore" else key
            for full, number in _entries(f"{name}.{short}", value):
                numbers[full] = numbers.get(full, 0.0) + number
    return numbers


def of_osds(cluster: Cluster, osds: Iterable[int] | None = None) -> dict[int, dict[str, float]]:
    """The counters of every OSD, or of those given, since it started."""
    wanted = cluster.osd_ids() if osds is None else osds
    return {osd: flatten(cluster.client.tell(f"osd.{osd}", "perf dump")) for osd in wanted}


def _entries(name: str, value: Any) -> list[tuple[str, float]]:
    if isinstance(value, int | float):
        return [(name, float(value))]
    if isinstance(value, Mapping) and "avgcount" in value:
        return [(name, float(value["avgcount"])), (f"{name}.sum", float(value.get("sum", 0.0)))]
    return []  # histograms add nothing to the difference of sums


def since(now: Counters, before: Counters) -> dict[str, float]:
    """What was counted after `before`; counters that did not change are left out."""
    changes = {key: value - before.get(key, 0.0) for key, value in now.items()}
    return {key: change for key, change in changes.items() if change}


def total(dumps: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    """The counters of several daemons or interfaces together, by name."""
    sums: dict[str, Number] = {}
    for dump in dumps:
        for key, value in dump.items():
            sums[key] = sums[key] + value if key in sums else value
    return sums


def traffic(changed: Counters) -> dict[Resource, float]:
    """Device requests as issued by BlueStore, and the bytes moved by the messenger, from the counters of an OSD.

    Writes: each blob written in place (`write_big_blobs`, `write_small_new`) that was not deferred, each deferred
    write issued, each request of BlueFS. Reads: each read that waited for the device, and those of BlueFS that went
    past its buffers. The device itself may merge or split them.
    """

    def get(name: str) -> float:
        return changed.get(name, 0.0)

    direct = max(0.0, get("bluestore.write_big_blobs") - get("bluestore.write_big_deferred"))
    bluefs = get("bluefs.write_disk_count") or get("bluefs.write_count")
    writes = direct + get("bluestore.write_small_new") + get("bluestore.issued_deferred_writes") + bluefs
    reads = get("bluestore.read_wait_aio_lat") + get("bluefs.read_disk_count")
    blobs = get("bluestore.write_big_blobs")
    big = get("bluestore.write_big_bytes") * (direct / blobs if blobs else 0.0)
    small = get("bluestore.write_small_bytes") if get("bluestore.write_small_new") else 0.0
    written_bytes = big + small + get("bluestore.issued_deferred_write_bytes") + get("bluefs.write_bytes")
    return {
        Resource.DEVICE_READS: reads,
        Resource.DEVICE_WRITES: writes,
        Resource.DEVICE_READ_BYTES: get("bluestore.buffer_miss_bytes") + get("bluefs.read_disk_bytes"),
        Resource.DEVICE_WRITE_BYTES: written_bytes,
        Resource.WIRE_SENT_BYTES: get("msgr.msgr_send_bytes"),
        Resource.WIRE_RECEIVED_BYTES: get("msgr.msgr_recv_bytes"),
    }
