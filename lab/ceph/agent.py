"""Runs on a host under the image's Python: reads one JSON request per line, calls librados, prints one answer per line.

It ends with its standard input, needs only the image's own `rados` and `rbd` modules, and must run on every Python that
a supported Debian suite ships (3.11 and later).
"""

import base64
import hashlib
import json
import pathlib
import platform
import sys
import time

import rados
import rbd

CACHED = {"rbd_cache_policy": "writeback", "rbd_cache_max_dirty_age": "600"}
"""Settings of an image with which a client keeps what it writes until it is flushed."""


class Agent:
    """One librados handle, connected at the first request, and the pools opened on it."""

    def __init__(self, conf, name, overrides):
        self.make = lambda: rados.Rados(conffile=conf, name=name, conf=overrides)
        self.cluster = None
        self.pools = {}
        self.held = {}
        self.namespace = self.locator = ""  # of the request that is answered

    def connect(self, timeout):
        if self.cluster is None:
            cluster = self.make()
            # The binding ignores its own timeout. librados waits as long as this option says, by default five minutes.
            cluster.conf_set("client_mount_timeout", str(timeout))
            cluster.connect()
            self.cluster = cluster

    def io(self, pool):
        if pool not in self.pools:
            # An older map may still have a deleted pool of the same name, and an ioctx is bound to a pool id.
            self.cluster.wait_for_latest_osdmap()
            self.pools[pool] = self.cluster.open_ioctx(pool)
        ioctx = self.pools[pool]
        ioctx.set_read(rados.LIBRADOS_SNAP_HEAD)
        ioctx.set_namespace(self.namespace)
        ioctx.set_locator_key(self.locator)
        return ioctx

    # Commands

    def op_command(self, target, command, data=""):
        inbuf = base64.b64decode(data)
        text = json.dumps(command, ensure_ascii=False)  # Ceph reads a pair of escaped surrogates as something else
        if target == "mon":
            code, out, status = self.cluster.mon_command(text, inbuf)
        elif target == "mgr":
            code, out, status = self.cluster.mgr_command(text, inbuf)
        elif target.startswith("osd."):
            code, out, status = self.cluster.osd_command(int(target[4:]), text, inbuf)
        elif target.startswith("pg:"):
            code, out, status = self.cluster.pg_command(target[3:], text, inbuf)
        elif target.startswith("mgr."):
            code, out, status = self.cluster.mgr_command(text, inbuf, target=target[4:])
        elif target.startswith("mon."):
            code, out, status = self.cluster.mon_command(text, inbuf, target=target[4:])
        else:
            raise ValueError(f"librados has no command for {target}")
        return {"code": code, "out": base64.b64encode(out).decode(), "status": status}

    def op_pgs(self, pgids):
        """[{pgid, state, epoch, acting, acting_primary}]; if a PG does not answer, epoch is 0 and state the reason."""
        # With an older map the request goes to a PG's former primary, which rejects it until the timeout.
        self.cluster.wait_for_latest_osdmap()
        return [self._pg(pgid) for pgid in pgids]

    def _pg(self, pgid):
        command = json.dumps({"prefix": "query", "pgid": pgid, "format": "json"})
        code, out, status = self.cluster.pg_command(pgid, command, b"")
        answered = json.loads(out) if code == 0 else {"state": status or f"error {code}", "epoch": 0}
        return {
            "pgid": pgid,
            "state": answered["state"],
            "epoch": answered["epoch"],
            "acting": answered.get("acting", []),
            "acting_primary": answered["info"]["stats"]["acting_primary"] if "info" in answered else -1,
        }

    def op_about(self):
        return {"machine": platform.machine(), "address": self.cluster.get_addrs()}

    def op_clock(self):
        """This host's CLOCK_MONOTONIC, and the boot id of its kernel."""
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()
        return {"boot": boot.strip(), "monotonic_s": time.monotonic()}

    def op_forget_pool(self, pool):
        ioctx = self.pools.pop(pool, None)
        if ioctx is not None:
            ioctx.close()

    # Objects

    def op_write_full(self, pool, name, data):
        self.io(pool).write_full(name, base64.b64decode(data))

    def op_write(self, pool, name, data, offset):
        self.io(pool).write(name, base64.b64decode(data), offset)

    def op_append(self, pool, name, data):
        self.io(pool).append(name, base64.b64decode(data))

    def op_truncate(self, pool, name, size):
        self.io(pool).trunc(name, size)

    def op_remove(self, pool, name):
        self.io(pool).remove_object(name)

    def op_read(self, pool, name, length, offset=0, snap=None):
        ioctx = self._at(self.io(pool), snap)
        return base64.b64encode(ioctx.read(name, length, offset)).decode()

    def op_digest(self, pool, name, snap=None):
        """{size, sha256, xattrs, omap} of one object. It is hashed here, so that its data need not be transferred."""
        ioctx = self._at(self.io(pool), snap)
        size, _ = ioctx.stat(name)
        digest = hashlib.sha256()
        offset = 0
        while offset < size:
            piece = ioctx.read(name, min(size - offset, 1 << 22), offset)
            if not piece:
                break
            digest.update(piece)
            offset += len(piece)
        return {
            "size": size,
            "sha256": digest.hexdigest(),
            "xattrs": {key: hashlib.sha256(value).hexdigest() for key, value in ioctx.get_xattrs(name)},
            "omap": self._omap(ioctx, name),
        }

    def op_list(self, pool):
        return sorted(item.key for item in self.io(pool).list_objects())

    def op_set_xattr(self, pool, name, key, data):
        self.io(pool).set_xattr(name, key, base64.b64decode(data))

    def op_set_omap(self, pool, name, pairs):
        ioctx = self.io(pool)
        with rados.WriteOpCtx() as op:
            keys = tuple(_bytes(key) for key in pairs)
            ioctx.set_omap(op, keys, tuple(base64.b64decode(value) for value in pairs.values()))
            ioctx.operate_write_op(op, name)

    def op_omap_in_order(self, pool, name, page):
        """[[hex of the key, sha256 of the value]] as the OSD serves them, `page` at a time."""
        ioctx, entries, last = self.io(pool), [], b""
        while True:
            with rados.ReadOpCtx() as op:
                pairs, _ = ioctx.get_omap_vals(op, last, b"", page, omap_key_type=bytes)
                ioctx.operate_read_op(op, name)
                served = [(key, hashlib.sha256(value or b"").hexdigest()) for key, value in pairs]
            if not served:
                return [[key.hex(), digest] for key, digest in entries]
            entries += served
            last = served[-1][0]

    def op_snap_create(self, pool, snap):
        self.io(pool).create_snap(snap)

    def op_snap_remove(self, pool, snap):
        self.io(pool).remove_snap(snap)

    def op_snap_rollback(self, pool, name, snap):
        self.io(pool).snap_rollback(name, snap)

    # Block device images

    def op_rbd_create(self, pool, image, size, order=20, data_pool=None, features=None):
        rbd.RBD().create(self.io(pool), image, size, order, old_format=False, features=features, data_pool=data_pool)

    def op_rbd_resize(self, pool, image, size):
        with rbd.Image(self.io(pool), image) as opened:
            opened.resize(size)

    def op_rbd_remove(self, pool, image):
        rbd.RBD().remove(self.io(pool), image)

    def op_rbd_write(self, pool, image, offset, data, encryption=None):
        with self._image(pool, image, None, encryption) as opened:
            opened.write(base64.b64decode(data), offset)

    def op_rbd_hold(self, pool, image, pieces):
        """Take an image's exclusive lock, write and flush each piece, [offset, data], and keep the image open."""
        with rbd.Image(self.io(pool), image) as opened:
            for key, value in CACHED.items():
                opened.metadata_set("conf_" + key, value)
        opened = self.held[image] = rbd.Image(self.io(pool), image)
        opened.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
        for offset, data in pieces:
            opened.write(base64.b64decode(data), offset)
            opened.flush()

    def op_rbd_release(self, image):
        self.held.pop(image).close()

    def op_rbd_discard(self, pool, image, offset, length):
        with self._image(pool, image, None, None) as opened:
            opened.discard(offset, length)

    def op_rbd_digest(self, pool, image, length, snap=None, encryption=None):
        """sha256 of the first `length` bytes; encryption: [format, passphrase] as in op_rbd_encrypt."""
        digest = hashlib.sha256()
        with self._image(pool, image, snap, encryption) as opened:
            for offset in range(0, length, 1 << 22):
                digest.update(opened.read(offset, min(length - offset, 1 << 22)))
            return {"size": opened.size(), "sha256": digest.hexdigest()}

    def op_rbd_list(self, pool):
        return sorted(rbd.RBD().list(self.io(pool)))

    def op_rbd_look(self, pool, image, pieces, snap=None):
        """{size, order, snaps, pieces: base64 each}; pieces: [offset, length] each."""
        with self._image(pool, image, snap, None) as opened:
            read = [base64.b64encode(opened.read(offset, length)).decode() for offset, length in pieces]
            snaps = sorted(snapshot["name"] for snapshot in opened.list_snaps())
            return {"size": opened.size(), "order": opened.stat()["order"], "snaps": snaps, "pieces": read}

    def op_rbd_snap(self, pool, image, snap):
        with self._image(pool, image, None, None) as opened:
            opened.create_snap(snap)
            opened.protect_snap(snap)

    def op_rbd_clone(self, pool, image, snap, child):
        ioctx = self.io(pool)
        rbd.RBD().clone(ioctx, image, snap, ioctx, child)

    def op_rbd_encrypt(self, pool, image, encryption):
        kind, passphrase = encryption
        with self._image(pool, image, None, None) as opened:
            opened.encryption_format(self._luks(kind), passphrase)

    def _image(self, pool, image, snap, encryption):
        opened = rbd.Image(self.io(pool), image, snapshot=snap)
        if encryption is not None:
            opened.encryption_load(self._luks(encryption[0]), encryption[1])
        return opened

    def _luks(self, kind):
        return {"luks1": rbd.RBD_ENCRYPTION_FORMAT_LUKS1, "luks2": rbd.RBD_ENCRYPTION_FORMAT_LUKS2}[kind]

    def _at(self, ioctx, snap):
        if snap is not None:
            ioctx.set_read(ioctx.lookup_snap(snap).snap_id)
        return ioctx

    def _omap(self, ioctx, name):
        entries, last = {}, ""
        try:
            while True:
                with rados.ReadOpCtx() as op:
                    # An OSD gives at most osd_max_omap_entries_per_request, 1024, however many are asked for.
                    pairs, _ = ioctx.get_omap_vals(op, last, "", 1 << 20)
                    ioctx.operate_read_op(op, name)
                    served = {key: hashlib.sha256(value or b"").hexdigest() for key, value in pairs}
                if not served:
                    return entries
                entries |= served
                last = max(served)
        except rados.TimedOut:
            raise
        except rados.Error:
            return {}  # erasure-coded pools have no omap, and reads at a snapshot may lack it


def _bytes(text):
    """A name as the cluster gets it. Python keeps bytes that are not UTF-8 as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def answer(agent, request):
    """The reply to one request: {"ok": value} or {"error": {type, errno, message}}."""
    try:
        agent.namespace, agent.locator = request.pop("namespace", ""), request.pop("locator", "")
        agent.connect(request.pop("connect_s", 300))
        return {"ok": getattr(agent, "op_" + request.pop("op"))(**request)}
    except (rados.Error, rbd.Error, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        return {
            "error": {
                "type": type(error).__name__,
                "errno": abs(getattr(error, "errno", None) or 0),
                "message": str(error),
            }
        }


def main():
    conf, name = sys.argv[1:3]
    agent = Agent(conf, name, json.loads(sys.argv[3]))
    for line in sys.stdin:
        print(json.dumps(answer(agent, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
