"""Objects in a pool, and a model of what they must hold. The model is computed here and never read from the cluster."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.history.history import Recorder
from cephlab.suites.interop.sides import sha

SMALL_BYTES = 64 << 10
"""Objects up to this size are compared byte by byte. The client hashes larger ones where it runs."""


@dataclass
class WantedObject:
    """The content that one object must have."""

    data: bytearray = field(default_factory=bytearray)
    xattrs: dict[str, bytes] = field(default_factory=dict)
    omap: dict[str, bytes] = field(default_factory=dict)

    def digest(self) -> dict[str, Any]:
        """The same form as RadosClient.digest."""
        return {
            "size": len(self.data),
            "sha256": sha(self.data),
            "xattrs": {key: sha(value) for key, value in sorted(self.xattrs.items())},
            "omap": {key: sha(value) for key, value in sorted(self.omap.items())},
        }


@dataclass
class Mirror:
    """Applies each operation to a pool, through a client, and to a model here. The client may change at any time."""

    client: RadosClient
    pool: str
    objects: dict[str, WantedObject] = field(default_factory=dict)
    snaps: dict[str, dict[str, WantedObject]] = field(default_factory=dict)

    def full(self, name: str, data: bytes) -> None:
        self.client.write_full(self.pool, name, data)
        self._of(name).data[:] = data

    def write(self, name: str, data: bytes, offset: int) -> None:
        """Overwrite or extend. A gap before offset is filled with zeros."""
        self.client.write(self.pool, name, data, offset)
        content = self._of(name).data
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data

    def append(self, name: str, data: bytes) -> None:
        self.client.append(self.pool, name, data)
        self._of(name).data.extend(data)

    def truncate(self, name: str, size: int) -> None:
        """Cut, or extend with zeros."""
        self.client.truncate(self.pool, name, size)
        content = self._of(name).data
        content.extend(bytes(max(0, size - len(content))))
        del content[size:]

    def xattr(self, name: str, key: str, value: bytes) -> None:
        self.client.set_xattr(self.pool, name, key, value)
        self._of(name).xattrs[key] = value

    def omap(self, name: str, pairs: dict[str, bytes]) -> None:
        self.client.set_omap(self.pool, name, pairs)
        self._of(name).omap.update(pairs)

    def remove(self, name: str) -> None:
        self.client.remove(self.pool, name)
        del self.objects[name]

    def snap(self, snap: str) -> None:
        self.client.snap_create(self.pool, snap)
        self.snaps[snap] = deepcopy(self.objects)

    def rollback(self, name: str, snap: str) -> None:
        self.client.snap_rollback(self.pool, name, snap)
        self.objects[name] = deepcopy(self.snaps[snap][name])

    def drop_snaps(self) -> None:
        """Remove every snapshot from the pool and the model."""
        for snap in list(self.snaps):
            self.client.snap_remove(self.pool, snap)
            del self.snaps[snap]

    def verify(self, reader: RadosClient, recorder: Recorder, when: str) -> None:
        """Observe what `reader` finds in the pool and its snapshots, compared with what must be there."""
        recorder.observe(
            f"objects listed {when}",
            got=reader.list_objects(self.pool),
            wanted=sorted(self.objects),
            reader=reader.host.arch.value,
        )
        self._verify(self.objects, reader, recorder, when, None)
        for snap, objects in self.snaps.items():
            self._verify(objects, reader, recorder, f"at snapshot {snap} {when}", snap)

    def _verify(
        self, objects: dict[str, WantedObject], reader: RadosClient, recorder: Recorder, when: str, snap: str | None
    ) -> None:
        for name, wanted in objects.items():
            digest = reader.digest(self.pool, name, snap=snap)
            recorder.observe(f"{name} {when}", got=digest, wanted=wanted.digest(), reader=reader.host.arch.value)
            if 0 < len(wanted.data) <= SMALL_BYTES:
                content = reader.read(self.pool, name, snap=snap)
                recorder.observe(f"content of {name} {when}", got=difference(content, wanted.data), wanted="equal")

    def _of(self, name: str) -> WantedObject:
        return self.objects.setdefault(name, WantedObject())


def difference(got: bytes | bytearray, wanted: bytes | bytearray) -> str:
    """`equal`, or where and how two contents first differ."""
    if got == wanted:
        return "equal"
    for offset, (byte, other) in enumerate(zip(got, wanted, strict=False)):
        if byte != other:
            return f"byte {offset} is {byte:#04x}, wanted {other:#04x}"
    return f"{len(got)} bytes, wanted {len(wanted)}"
