"""A side of a walk over RADOS: objects of one pool, in the walk's own namespace, through librados.

Settings: conf, name, pool (created if missing), place (prefix of the names that the walk creates).
"""

import rados

SETTINGS = {"conf": "/etc/ceph/ceph.conf", "name": "client.admin", "pool": "walk"}


class Side:
    """One librados client."""

    refusals = (rados.Error, OSError, ValueError, TypeError)

    def __init__(self, settings):
        self.cluster = rados.Rados(conffile=settings["conf"], name=settings["name"])
        self.cluster.connect()
        if settings["pool"] not in self.cluster.list_pools():
            self.cluster.create_pool(settings["pool"])
        self.ioctx = self.cluster.open_ioctx(settings["pool"])
        self.place = ""

    def begin(self, place):
        """Go to an empty place."""
        self.ioctx.set_namespace(place)
        self.place = place

    @property
    def io(self):
        """The pool by the newest map. With an older map a write may miss snapshots that another side made."""
        self.cluster.wait_for_latest_osdmap()
        return self.ioctx

    def close(self):
        self.ioctx.close()
        self.cluster.shutdown()

    def word(self, error):
        """A refusal as one word, or the full text of an error that no walk expects."""
        known = {rados.ObjectNotFound: "ENOENT", rados.ObjectExists: "EEXIST", rados.NoData: "ENODATA"}
        return known.get(type(error)) or "%s: %s" % (type(error).__name__, error)

    def op_full(self, name, seed, size):
        self.io.write_full(name, content(seed, size))

    def op_write(self, name, seed, size, offset):
        self.io.write(name, content(seed, size), offset)

    def op_append(self, name, seed, size):
        self.io.append(name, content(seed, size))

    def op_truncate(self, name, size):
        self.io.trunc(name, size)

    def op_zero(self, name, size):
        """Zero `size` bytes at offset `size`, because this binding swaps the offset and the length."""
        with rados.WriteOpCtx() as op:
            op.zero(size, size)
            self.io.operate_write_op(op, name)

    def op_remove(self, name):
        self.io.remove_object(name)

    def op_set_xattr(self, name, key, seed, size):
        self.io.set_xattr(name, key, content(seed, size))

    def op_remove_xattr(self, name, key):
        self.io.rm_xattr(name, key)

    def op_set_omap(self, name, keys, seed, size):
        """keys: in hex. Values have `size` bytes each and come from consecutive seeds, starting with this one."""
        with rados.WriteOpCtx() as op:
            values = tuple(content(seed + number, size) for number in range(len(keys)))
            self.io.set_omap(op, tuple(bytes.fromhex(key) for key in keys), values)
            self.io.operate_write_op(op, name)

    def op_remove_omap(self, name, keys):
        with rados.WriteOpCtx() as op:
            self.io.remove_omap_keys(op, tuple(bytes.fromhex(key) for key in keys))
            self.io.operate_write_op(op, name)

    def op_clear_omap(self, name):
        with rados.WriteOpCtx() as op:
            self.io.clear_omap(op)
            self.io.operate_write_op(op, name)

    def op_snap(self, snap):
        self.io.create_snap(self.place + snap)

    def op_drop(self, snap):
        self.io.remove_snap(self.place + snap)

    def op_rollback(self, name, snap):
        self.io.snap_rollback(name, self.place + snap)

    def op_read(self, name, offset, size):
        return told(self.io.read(name, size, offset))

    def op_look(self, names, omap):
        """Every object now and at every snapshot of the walk. omap: whether the pool has omaps."""
        listed = sorted(item.key for item in self.io.list_objects())
        snaps = {
            snap.name[len(self.place) :]: snap for snap in self.ioctx.list_snaps() if snap.name.startswith(self.place)
        }
        state = {"listed": listed, "now": self.all_of(names, omap)}
        for snap, there in snaps.items():
            self.ioctx.set_read(there.snap_id)
            # Not every kind of pool can read an omap at a snapshot.
            state["at " + snap] = self.all_of(names, False)
        self.ioctx.set_read(rados.LIBRADOS_SNAP_HEAD)
        # A removed object that was in a snapshot stays listed until OSDs trim it, some time after the snapshot is gone.
        state["listed"] = [name for name in listed if name in state["now"] or name not in names]
        return state

    def all_of(self, names, omap):
        state = {}
        for name in names:
            try:
                size, _ = self.ioctx.stat(name)
            except rados.ObjectNotFound:
                continue
            xattrs = {key: told(value) for key, value in self.ioctx.get_xattrs(name)}
            state[name] = [told(self.ioctx.read(name, size + 1)), xattrs, self.omap_of(name) if omap else []]
        return state

    def omap_of(self, name):
        """[[key in hex, value]] in the OSD's order, read in small pages."""
        entries, last = [], b""
        while True:
            with rados.ReadOpCtx() as op:
                pairs, _ = self.ioctx.get_omap_vals(op, last, b"", 7, omap_key_type=bytes)
                self.ioctx.operate_read_op(op, name)
                served = [[key, told(value or b"")] for key, value in pairs]
            if not served:
                return [[key.hex(), value] for key, value in entries]
            entries += served
            last = served[-1][0]
