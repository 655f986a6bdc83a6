"""A side of a walk over RADOS: objects of one pool, in the walk's own namespace, through librados.

Settings: conf, name, pool (created if missing), place (prefix of the names that the walk creates), snapshots: `pool`,
or `managed`, which clients number and list themselves. A pool can have those of one kind only. keys: of omaps, `bytes`,
or `text` for the binding of pacific, which takes no others.
"""

import contextlib
import errno

import rados

SETTINGS = {"conf": "/etc/ceph/ceph.conf", "name": "client.admin", "pool": "walk", "snapshots": "pool", "keys": "bytes"}
WORDS = ("ENOENT", "EEXIST", "ENODATA", "ECANCELED", "ERANGE", "EOVERFLOW", "EFBIG", "EBUSY", "EINVAL")
NOTIFY_MS = 60000


class Side(Classes):
    """One librados client."""

    refusals = (rados.Error, OSError, ValueError, TypeError)

    def __init__(self, settings):
        self.cluster = rados.Rados(conffile=settings["conf"], name=settings["name"])
        self.cluster.connect()
        if settings["pool"] not in self.cluster.list_pools():
            self.cluster.create_pool(settings["pool"])
        self.pool = settings["pool"]
        self.ioctx = self.cluster.open_ioctx(self.pool)
        self.snaps = Managed(self) if settings["snapshots"] == "managed" else Pooled(self)
        self.place = ""
        self.keys = {} if settings.get("keys") == "text" else {"omap_key_type": bytes}
        self.watches, self.heard = {}, {}

    def begin(self, place):
        """Remove the snapshots and watches of the last place, and go to an empty one."""
        for handle in list(self.watches):
            self.op_unwatch(handle)
        self.heard.clear()
        if self.place:
            self.snaps.refresh()
            for snap in self.snaps.ids():
                self.snaps.drop(snap)
        self.ioctx.set_namespace(place)
        self.place = place

    @property
    def io(self):
        """The pool, with every snapshot that another side may have made."""
        self.snaps.refresh()
        return self.ioctx

    def key(self, name):
        """Go to the locator of a name, and return the name of the object itself."""
        locator, _, own = name.rpartition("\0")
        self.ioctx.set_locator_key(locator)
        return own

    def close(self):
        for handle in list(self.watches):
            self.op_unwatch(handle)
        self.ioctx.close()
        self.cluster.shutdown()

    def word(self, error):
        """A refusal as one word, or the full text of an error that no walk expects."""
        number = abs(getattr(error, "errno", None) or 0)
        if number >= rados.MAX_ERRNO:
            return "differs at %d" % (number - rados.MAX_ERRNO)
        name = errno.errorcode.get(number)
        if name in WORDS:
            return name
        return "%s: %s" % (type(error).__name__, error)

    def op_full(self, name, seed, size):
        self.io.write_full(self.key(name), content(seed, size))

    def op_write(self, name, seed, size, offset):
        self.io.write(self.key(name), content(seed, size), offset)

    def op_append(self, name, seed, size):
        self.io.append(self.key(name), content(seed, size))

    def op_same(self, name, seed, size, count, offset):
        """Write `count` copies of one piece, one after another."""
        self.io.writesame(self.key(name), content(seed, size), size * count, offset)

    def op_truncate(self, name, size):
        self.io.trunc(self.key(name), size)

    def op_remove(self, name):
        self.io.remove_object(self.key(name))

    def op_set_xattr(self, name, key, seed, size):
        self.io.set_xattr(self.key(name), key, content(seed, size))

    def op_remove_xattr(self, name, key):
        self.io.rm_xattr(self.key(name), key)

    def __getattr__(self, attribute):
        """A step that is a compound operation of one part."""
        part = attribute[len("op_") :]
        if not attribute.startswith("op_") or not hasattr(type(self), "add_" + part):
            raise AttributeError(attribute)
        return lambda name, **arguments: self.op_compound(name, [[part, arguments]])

    def op_compound(self, name, parts):
        """Take all parts in one operation."""
        io, name = self.io, self.key(name)
        with rados.WriteOpCtx() as op:
            for operation, arguments in parts:
                if operation == "version":
                    io.append(name, b"")  # a first version is 1, and 0 cannot be asserted
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
        """Zero `size` bytes at offset `size`, because this binding swaps the offset and the length."""
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
        self.ioctx.set_omap(op, self.raw(keys), values)

    def add_remove_omap(self, op, keys):
        self.ioctx.remove_omap_keys(op, self.raw(keys))

    def add_remove_omap_range(self, op, begin, end):
        self.ioctx.remove_omap_range2(op, *self.raw([begin, end]))

    def add_clear_omap(self, op):
        self.ioctx.clear_omap(op)

    def add_compare(self, op, offset, data):
        op.cmpext(bytes.fromhex(data), offset)

    def add_compare_omap(self, op, key, data):
        op.omap_cmp(bytes.fromhex(key), bytes.fromhex(data))

    def add_version(self, op, than):
        op.assert_version(self.ioctx.get_last_version() + than)

    def add_too_far(self, op):
        op.write(b"x", 1 << 40)

    def op_watch(self, name, handle):
        """Watch through a context of its own, since it confirms notifications later, when this one is elsewhere."""
        ioctx = self.cluster.open_ioctx(self.pool)
        ioctx.set_namespace(self.place)
        self.op_unwatch(handle)
        heard = []
        watch = ioctx.watch(name, lambda *notice: heard.append(notice[-1].decode()), lambda *error: None)
        self.watches[handle], self.heard[handle] = (watch, ioctx), heard

    def op_unwatch(self, handle):
        watch, ioctx = self.watches.pop(handle, (None, None))
        if watch is not None:
            with contextlib.suppress(rados.Error):  # the object may be gone
                watch.close()
            ioctx.close()

    def op_notify(self, name, text):
        self.io.notify(self.key(name), text, NOTIFY_MS)

    def op_heard(self, handle):
        heard = self.heard.get(handle, [])
        notes = list(heard)
        heard.clear()
        return notes

    def op_restart(self, number):
        """Only take it for down, which it is not: a program on another machine cannot restart it."""
        self.command("osd down", ids=[str(self.osd(number))])

    def op_affinity(self, number, percent):
        self.command("osd primary-affinity", id=self.osd(number), weight=percent / 100)

    def op_split(self, pg_num):
        self.command("osd pool set", pool=self.pool, var="pg_num", val=str(pg_num))

    def op_copies(self, size):
        self.command("osd pool set", pool=self.pool, var="size", val=str(size))

    def op_scrub(self):
        self.command("osd pool deep-scrub", who=[self.pool])

    def osd(self, number):
        known = self.command("osd ls")
        return known[number % len(known)]

    def command(self, prefix, **arguments):
        asked = json.dumps({"prefix": prefix, "format": "json", **arguments})
        code, answer, complaint = self.cluster.mon_command(asked, b"")
        if code:
            raise OSError(-code, complaint)
        return json.loads(answer) if answer.strip() else None

    def op_snap(self, snap):
        self.snaps.make(snap)

    def op_drop(self, snap):
        self.snaps.drop(snap)

    def op_rollback(self, name, snap):
        self.snaps.rollback(self.io, self.key(name), snap)

    def op_read(self, name, offset, size):
        return told(self.io.read(self.key(name), size, offset))

    def op_read_at(self, name, snap, offset, size):
        return self.at(snap, lambda: told(self.ioctx.read(self.key(name), size, offset)))

    def op_compare(self, name, offset, data):
        """Through a read operation, because this binding's `Ioctx.cmpext` asserts that the object is there."""
        with rados.ReadOpCtx() as op:
            op.cmpext(bytes.fromhex(data), offset)
            self.io.operate_read_op(op, self.key(name))

    def op_page(self, name, after, prefix, most):
        """At most so many entries after a key, of the keys with that prefix."""
        with rados.ReadOpCtx() as op:
            begin = self.raw([after, prefix])
            return self.entries(op, name, self.io.get_omap_vals(op, *begin, most, **self.keys))

    def op_page_at(self, snap, **page):
        return self.at(snap, lambda: self.op_page(**page))

    def op_pick(self, name, keys):
        with rados.ReadOpCtx() as op:
            return self.entries(op, name, self.io.get_omap_vals_by_keys(op, self.raw(keys), **self.keys))

    def entries(self, op, name, served):
        self.ioctx.operate_read_op(op, self.key(name))
        return [[hex_of(key), told(value or b"")] for key, value in served[0]]

    def at(self, snap, question):
        """The answer to a question at a snapshot."""
        self.io.set_read(self.snaps.ids()[snap])
        try:
            return question()
        finally:
            self.ioctx.set_read(rados.LIBRADOS_SNAP_HEAD)

    def op_look(self, names, omap):
        """Every object now and at every snapshot of the walk. omap: whether the pool has omaps."""
        items = [(item.locator_key or "", item.key) for item in self.io.list_objects()]
        listed = sorted(locator + "\0" + key if locator else key for locator, key in items)
        state = {"listed": listed, "now": self.all_of(names, omap)}
        for snap, number in self.snaps.ids().items():
            self.ioctx.set_read(number)
            state["at " + snap] = self.all_of(names, omap)
        self.ioctx.set_read(rados.LIBRADOS_SNAP_HEAD)
        # A removed object that was in a snapshot stays listed until OSDs trim it, some time after the snapshot is gone.
        state["listed"] = [name for name in listed if name in state["now"] or name not in names]
        return state

    def all_of(self, names, omap):
        state = {}
        for name in names:
            try:
                size, _ = self.ioctx.stat(self.key(name))
            except rados.ObjectNotFound:
                continue
            xattrs = self.ioctx.get_xattrs(self.key(name))
            # The attribute of a lock has the address of its holder.
            xattrs = {key: "" if key.startswith("lock.") else told(value) for key, value in xattrs}
            read = self.ioctx.read(self.key(name), size + 1)
            state[name] = [told(read), xattrs, self.omap_of(self.key(name)) if omap else []]
        return state

    def omap_of(self, name):
        """[[key in hex, value]] in the OSD's order, read in small pages."""
        entries, (last, prefix) = [], self.raw(["", ""])
        while True:
            with rados.ReadOpCtx() as op:
                pairs, _ = self.ioctx.get_omap_vals(op, last, prefix, 7, **self.keys)
                self.ioctx.operate_read_op(op, name)
                served = [[key, told(value or b"")] for key, value in pairs]
            if not served:
                return [[hex_of(key), value] for key, value in entries]
            entries += served
            last = served[-1][0]

    def raw(self, keys):
        """Keys from hex, as the binding takes them."""
        raw = [bytes.fromhex(key) for key in keys]
        return tuple(raw if self.keys else [key.decode() for key in raw])


def hex_of(key):
    return (key.encode() if isinstance(key, str) else key).hex()
