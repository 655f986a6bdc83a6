"""A side of a walk over RADOS: objects of one pool, in the walk's own namespace, through librados.

Settings: conf, name, pool (created if missing), place (prefix of the names that the walk creates).
"""

import errno

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
        number = abs(getattr(error, "errno", None) or 0)
        if number >= rados.MAX_ERRNO:
            return "differs at %d" % (number - rados.MAX_ERRNO)
        name = errno.errorcode.get(number)
        if name in ("ENOENT", "EEXIST", "ENODATA", "ECANCELED", "ERANGE", "EOVERFLOW", "EFBIG"):
            return name
        return "%s: %s" % (type(error).__name__, error)

    def op_full(self, name, seed, size):
        self.io.write_full(name, content(seed, size))

    def op_write(self, name, seed, size, offset):
        self.io.write(name, content(seed, size), offset)

    def op_append(self, name, seed, size):
        self.io.append(name, content(seed, size))

    def op_same(self, name, seed, size, count, offset):
        """Write `count` copies of one piece, one after another."""
        self.io.writesame(name, content(seed, size), size * count, offset)

    def op_create(self, name):
        self.op_compound(name, [["create", {}]])

    def op_truncate(self, name, size):
        self.io.trunc(name, size)

    def op_zero(self, name, size):
        """Zero `size` bytes at offset `size`, because this binding swaps the offset and the length."""
        self.op_compound(name, [["zero", {"size": size}]])

    def op_remove(self, name):
        self.io.remove_object(name)

    def op_set_xattr(self, name, key, seed, size):
        self.io.set_xattr(name, key, content(seed, size))

    def op_remove_xattr(self, name, key):
        self.io.rm_xattr(name, key)

    def op_set_omap(self, name, **arguments):
        self.op_compound(name, [["set_omap", arguments]])

    def op_remove_omap(self, name, keys):
        self.op_compound(name, [["remove_omap", {"keys": keys}]])

    def op_remove_omap_range(self, name, begin, end):
        self.op_compound(name, [["remove_omap_range", {"begin": begin, "end": end}]])

    def op_clear_omap(self, name):
        self.op_compound(name, [["clear_omap", {}]])

    def op_compound(self, name, parts):
        """Take all parts in one operation."""
        io = self.io
        with rados.WriteOpCtx() as op:
            for operation, arguments in parts:
                if operation == "version":
                    io.append(name, b"")  # a first version is 1, and 0 cannot be asserted
                    op.assert_version(io.get_last_version() + arguments["than"])
                else:
                    getattr(self, "add_" + operation)(op, **arguments)
            io.operate_write_op(op, name)

    def add_full(self, op, seed, size):
        op.write_full(content(seed, size))

    def add_write(self, op, seed, size, offset):
        op.write(content(seed, size), offset)

    def add_append(self, op, seed, size):
        op.append(content(seed, size))

    def add_same(self, op, seed, size, count, offset):
        op.writesame(content(seed, size), size * count, offset)

    def add_truncate(self, op, size):
        op.truncate(size)

    def add_zero(self, op, size):
        op.zero(size, size)

    def add_create(self, op):
        op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)

    def add_remove(self, op):
        op.remove()

    def add_set_xattr(self, op, key, seed, size):
        op.set_xattr(key, content(seed, size))

    def add_remove_xattr(self, op, key):
        op.rm_xattr(key)

    def add_set_omap(self, op, keys, seed, size):
        """keys: in hex. Values have `size` bytes each and come from consecutive seeds, starting with this one."""
        values = tuple(content(seed + number, size) for number in range(len(keys)))
        self.ioctx.set_omap(op, raw(keys), values)

    def add_remove_omap(self, op, keys):
        self.ioctx.remove_omap_keys(op, raw(keys))

    def add_remove_omap_range(self, op, begin, end):
        self.ioctx.remove_omap_range2(op, *raw([begin, end]))

    def add_clear_omap(self, op):
        self.ioctx.clear_omap(op)

    def add_compare(self, op, offset, data):
        op.cmpext(bytes.fromhex(data), offset)

    def add_compare_omap(self, op, key, data):
        op.omap_cmp(bytes.fromhex(key), bytes.fromhex(data))

    def add_too_far(self, op):
        op.write(b"x", 1 << 40)

    def op_snap(self, snap):
        self.io.create_snap(self.place + snap)

    def op_drop(self, snap):
        self.io.remove_snap(self.place + snap)

    def op_rollback(self, name, snap):
        self.io.snap_rollback(name, self.place + snap)

    def op_read(self, name, offset, size):
        return told(self.io.read(name, size, offset))

    def op_read_at(self, name, snap, offset, size):
        return self.at(snap, lambda: told(self.ioctx.read(name, size, offset)))

    def op_compare(self, name, offset, data):
        """Through a read operation, because this binding's `Ioctx.cmpext` asserts that the object is there."""
        with rados.ReadOpCtx() as op:
            op.cmpext(bytes.fromhex(data), offset)
            self.io.operate_read_op(op, name)

    def op_page(self, name, after, prefix, most):
        """At most so many entries after a key, of the keys with that prefix."""
        with rados.ReadOpCtx() as op:
            return self.entries(op, name, self.io.get_omap_vals(op, *raw([after, prefix]), most, omap_key_type=bytes))

    def op_page_at(self, snap, **page):
        return self.at(snap, lambda: self.op_page(**page))

    def op_pick(self, name, keys):
        with rados.ReadOpCtx() as op:
            return self.entries(op, name, self.io.get_omap_vals_by_keys(op, raw(keys), omap_key_type=bytes))

    def entries(self, op, name, served):
        self.ioctx.operate_read_op(op, name)
        return [[key.hex(), told(value or b"")] for key, value in served[0]]

    def at(self, snap, question):
        """The answer to a question at a snapshot."""
        self.io.set_read(self.ioctx.lookup_snap(self.place + snap).snap_id)
        try:
            return question()
        finally:
            self.ioctx.set_read(rados.LIBRADOS_SNAP_HEAD)

    def op_look(self, names, omap):
        """Every object now and at every snapshot of the walk. omap: whether the pool has omaps."""
        listed = sorted(item.key for item in self.io.list_objects())
        snaps = {
            snap.name[len(self.place) :]: snap for snap in self.ioctx.list_snaps() if snap.name.startswith(self.place)
        }
        state = {"listed": listed, "now": self.all_of(names, omap)}
        for snap, there in snaps.items():
            self.ioctx.set_read(there.snap_id)
            state["at " + snap] = self.all_of(names, omap)
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


def raw(keys):
    """Keys from hex."""
    return tuple(bytes.fromhex(key) for key in keys)
