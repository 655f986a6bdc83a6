"""Object classes as a side of a walk over RADOS calls them: locks, versions, references and numbers.

What they read and answer is encoded here, since Python's librados has no names for it.
"""

import struct

import rados


def text(value):
    """A string as Ceph encodes it."""
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def encoded(body):
    """A structure of version 1 as Ceph encodes it."""
    return struct.pack("<BBI", 1, 1, len(body)) + body


def version_of(number, tag):
    return encoded(struct.pack("<Q", number) + text(tag))


def demanded(number, tag, condition):
    """A version that fulfills one condition, and nothing else to compare with."""
    clause = encoded(version_of(number, tag) + struct.pack("<I", condition))
    return encoded(version_of(number, tag) + struct.pack("<I", 1) + clause)


class Classes:
    """Calls of object classes."""

    def add_lock(self, op, lock, cookie, **how):
        """how: kind, tag, renew, and brief: for a nanosecond."""
        asked = text(lock) + bytes([how["kind"]]) + text(cookie) + text(how["tag"]) + text("walk")
        op.execute("lock", "lock", encoded(asked + struct.pack("<IIB", 0, how["brief"], how["renew"])))

    def add_unlock(self, op, lock, cookie):
        op.execute("lock", "unlock", encoded(text(lock) + text(cookie)))

    def add_held(self, op, lock, kind, cookie, tag):
        op.execute("lock", "assert_locked", encoded(text(lock) + bytes([kind]) + text(cookie) + text(tag)))

    def add_set_version(self, op, number, tag):
        op.execute("version", "set", encoded(version_of(number, tag)))

    def add_next_version(self, op, **asked):
        op.execute("version", "inc_conds", demanded(**asked))

    def add_check_version(self, op, **asked):
        op.execute("version", "check_conds", demanded(**asked))

    def add_refer(self, op, tag, implicit):
        op.execute("refcount", "get", encoded(text(tag) + bytes([implicit])))

    def add_release(self, op, tag, implicit):
        op.execute("refcount", "put", encoded(text(tag) + bytes([implicit])))

    def add_set_references(self, op, tags):
        op.execute("refcount", "set", encoded(struct.pack("<I", len(tags)) + b"".join(map(text, tags))))

    def add_add(self, op, key, by):
        op.execute("numops", "add", text(bytes.fromhex(key).decode()) + text(by))

    def add_multiply(self, op, key, by):
        op.execute("numops", "mul", text(bytes.fromhex(key).decode()) + text(by))

    def op_break_lock(self, name, lock, cookie, mine):
        """Take a lock away from its holder: this client, or another one."""
        holders = [holder for of, holder in self.lock_of(name, lock)[2] if of == cookie and self.own(holder) == mine]
        asked = text(lock) + (holders[0] if holders else struct.pack("<Bq", 8, 0)) + text(cookie)
        with rados.WriteOpCtx() as op:
            op.execute("lock", "break_lock", encoded(asked))
            self.io.operate_write_op(op, self.key(name))

    def op_locked(self, name, lock):
        kind, tag, holders = self.lock_of(name, lock)
        return [kind, tag, sorted([cookie, self.own(holder)] for cookie, holder in holders)]

    def lock_of(self, name, lock):
        """Its kind, its tag, and the cookie and the client of each holder."""
        _, answer = self.io.execute(self.key(name), "lock", "get_info", encoded(text(lock)), 1 << 16)
        at, holders = 6, []
        (count,) = struct.unpack_from("<I", answer, at)
        at += 4
        for _ in range(count):
            (cookie,) = struct.unpack_from("<I", answer, at + 15)
            holders.append((answer[at + 19 : at + 19 + cookie].decode(), answer[at + 6 : at + 15]))
            at += 19 + cookie
            at += 6 + struct.unpack_from("<I", answer, at + 2)[0]
        (tag,) = struct.unpack_from("<I", answer, at + 1)
        return answer[at], answer[at + 5 : at + 5 + tag].decode(), holders

    def own(self, holder):
        return holder == struct.pack("<Bq", 8, self.cluster.get_instance_id())
