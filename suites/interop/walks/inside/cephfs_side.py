"""A side of a walk over CephFS: a tree below one directory, through libcephfs.

Settings: conf, name, place (a directory below the root, created if missing).
"""

import contextlib
import ctypes
import datetime
import errno
import json
import os
import stat
import struct

import cephfs
import rados

SETTINGS = {"conf": "/etc/ceph/ceph.conf", "name": "client.admin"}
FLOCK = {"shared": 1, "exclusive": 2, "none": 8}
FCNTL = {"shared": 0, "exclusive": 1, "none": 2}
NO_WAIT = 4
XATTR_BYTES = 65536
STATX = struct.Struct("<IIIIIH2xQQQQQ8q")
"""`struct ceph_statx` up to its times: its fields 6, 11, 12, 15 and 16 are the inode and the two times."""
STATX_BYTES, STATX_INO, STATX_ALL, NO_FOLLOW, SET_TIMES = 1024, 0x80, 0x7FF, 0x100, 0x18
CLOCKS_NS = (1 << 30) * 10**9
"""Walks set earlier times, and clocks give later ones."""
PUNCH = 3
"""FALLOC_FL_PUNCH_HOLE with FALLOC_FL_KEEP_SIZE."""
LAYOUT = "stripe_unit=%d stripe_count=%d object_size=%d"
QUOTAS = {"bytes": "ceph.quota.max_bytes", "files": "ceph.quota.max_files"}


class Flock(ctypes.Structure):
    """`struct flock` of fcntl on a 64-bit machine."""

    _fields_ = (
        ("type", ctypes.c_short),
        ("whence", ctypes.c_short),
        ("start", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("pid", ctypes.c_int),
    )


class Native:
    """What the Python binding has no call for: a separate mount through libcephfs' C API."""

    def __init__(self, settings):
        self.library, self.mount, self.files = ctypes.CDLL("libcephfs.so.2"), ctypes.c_void_p(), {}
        self.library.ceph_mount_perms.restype = ctypes.c_void_p
        self.call("ceph_create", ctypes.byref(self.mount), settings["name"].partition(".")[2].encode())
        self.call("ceph_conf_read_file", self.mount, settings["conf"].encode())
        self.call("ceph_mount", self.mount, b"/")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code < 0:
            raise OSError(-code, name)

    def opened(self, path):
        """The handle of a file, the same for each of its names."""
        inode, handle, about = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(STATX_BYTES)
        who = ctypes.c_void_p(self.library.ceph_mount_perms(self.mount))
        self.call("ceph_ll_walk", self.mount, path, ctypes.byref(inode), about, STATX_INO, 0, who)
        number = STATX.unpack_from(about)[6]
        if number not in self.files:
            self.call("ceph_ll_open", self.mount, inode, os.O_RDWR, ctypes.byref(handle), who)
            self.files[number] = handle
        return self.files[number]

    def lock(self, path, kind, start, length, owner):
        asked = Flock(FCNTL[kind], 0, start, length, owner)
        self.call("ceph_ll_setlk", self.mount, self.opened(path), ctypes.byref(asked), ctypes.c_uint64(owner), 0)

    def set_times(self, path, atime, mtime):
        """Times in ns, of a symbolic link itself."""
        about = ctypes.create_string_buffer(STATX_BYTES)
        STATX.pack_into(about, 0, *[0] * 11, *divmod(atime, 10**9), 0, 0, *divmod(mtime, 10**9), 0, 0)
        self.call("ceph_setattrx", self.mount, path, about, SET_TIMES, NO_FOLLOW)

    def times(self, path):
        """Times of the last access and change in ns; None for one that a clock gave."""
        about = ctypes.create_string_buffer(STATX_BYTES)
        self.call("ceph_statx", self.mount, path, about, STATX_ALL, NO_FOLLOW)
        values = STATX.unpack_from(about)
        times = [values[at] * 10**9 + values[at + 1] for at in (11, 15)]
        return [time if time < CLOCKS_NS else None for time in times]

    def close(self):
        """Unmount, because the MDS releases the locks of a client that just disappears only after a minute."""
        for handle in self.files.values():
            self.call("ceph_ll_close", self.mount, handle)
        self.call("ceph_unmount", self.mount)
        self.call("ceph_release", self.mount)

    def sync_fs(self):
        """Named as in the Python binding, like the next one."""
        self.call("ceph_sync_fs", self.mount)

    def get_instance_id(self):
        self.library.ceph_get_instance_id.restype = ctypes.c_uint64
        return self.library.ceph_get_instance_id(self.mount)


class Side:
    """One client of CephFS."""

    refusals = (cephfs.Error, OSError)

    def __init__(self, settings):
        self.settings = settings
        self.fs = self.mounted()
        self.place, self.held, self.kept, self.opened_native = b"/", {}, {}, None

    def mounted(self):
        fs = cephfs.LibCephFS(conffile=self.settings["conf"], auth_id=self.settings["name"].partition(".")[2])
        fs.mount()
        return fs

    def begin(self, place):
        """Go to an empty place."""
        self.release()
        self.place = b"/" + place.encode() + b"/"
        with contextlib.suppress(cephfs.ObjectExists):
            self.fs.mkdir(self.place, 0o755)

    def release(self):
        """Release every lock, and close every file."""
        for fd in (*self.held.values(), *self.kept.values()):
            self.fs.close(fd)
        self.held.clear()
        self.kept.clear()
        if self.opened_native:
            self.opened_native.close()
            self.opened_native = None

    def close(self):
        self.release()
        self.fs.shutdown()

    @property
    def native(self):
        self.opened_native = self.opened_native or Native(self.settings)
        return self.opened_native

    def word(self, error):
        """A refusal as one word."""
        return errno.errorcode.get(getattr(error, "errno", 0), "%s: %s" % (type(error).__name__, error))

    def at(self, path):
        return self.place + path.encode("utf-8", "surrogateescape")

    def snap_at(self, path, snap):
        return os.path.join(self.at(path), b".snap", snap.encode())

    def opened(self, path, flags):
        return self.fs.open(self.at(path), flags, 0o644)

    @contextlib.contextmanager
    def briefly(self, path, flags):
        """A file that is open inside the block."""
        fd = self.opened(path, flags)
        try:
            yield fd
        finally:
            self.fs.close(fd)

    def op_write(self, path, seed, size, offset, flags=0):
        """Write and fsync. flags: for open, in addition to O_CREAT."""
        with self.briefly(path, os.O_WRONLY | os.O_CREAT | flags) as fd:
            if size:  # an empty write crashes a program of reef: assert(len > 0) in file_to_extents
                self.fs.write(fd, content(seed, size), offset)
            self.fs.fsync(fd, 0)

    def op_read(self, path, offset, size):
        with self.briefly(path, os.O_RDONLY) as fd:
            return told(self.fs.read(fd, offset, size))

    def op_truncate(self, path, size, mtime=None):
        """mtime: the time of change that the file gets afterwards, in seconds; None: keep what libcephfs gave it."""
        self.fs.truncate(self.at(path), size)
        if mtime is not None:
            about = {"mtime": datetime.datetime.fromtimestamp(mtime)}
            self.fs.setattrx(self.at(path), about, cephfs.CEPH_SETATTR_MTIME, 0)

    def op_mkdir(self, path):
        self.fs.mkdir(self.at(path), 0o755)

    def op_rmdir(self, path):
        self.fs.rmdir(self.at(path))

    def op_unlink(self, path):
        self.fs.unlink(self.at(path))

    def op_rename(self, path, to):
        self.fs.rename(self.at(path), self.at(to))

    def op_link(self, path, to):
        self.fs.link(self.at(path), self.at(to))

    def op_symlink(self, target, path):
        self.fs.symlink(target.encode(), self.at(path))

    def op_setxattr(self, path, name, seed, size, flags=0):
        self.fs.setxattr(self.at(path), name, content(seed, size), flags)

    def op_removexattr(self, path, name):
        self.fs.removexattr(self.at(path), name)

    def op_snap(self, path, snap):
        self.fs.mkdir(self.snap_at(path, snap), 0o755)

    def op_drop(self, path, snap):
        self.fs.rmdir(self.snap_at(path, snap))

    def op_quota(self, path, of, most):
        self.fs.setxattr(self.at(path), QUOTAS[of], b"%d" % most, 0)

    def op_pin(self, path, rank):
        """Pin a directory, with everything below it, to an active rank."""
        self.fs.setxattr(self.at(path), "ceph.dir.pin", b"%d" % rank, 0)

    def op_flock(self, path, kind, owner):
        """Lock a file, or release the lock. Each owner opens the file separately."""
        key = path, owner
        if key not in self.held:
            self.held[key] = self.opened(path, os.O_RDWR)
        self.fs.flock(self.held[key], FLOCK[kind] | NO_WAIT, owner)

    def op_range(self, path, kind, start, length, owner):
        """Lock a range of a file as fcntl does, or release it."""
        self.native.lock(self.at(path), kind, start, length, owner)

    def op_append(self, path, seed, size):
        self.op_write(path, seed, size, -1, os.O_APPEND)

    def op_punch(self, path, offset, size):
        with self.briefly(path, os.O_WRONLY) as fd:
            self.fs.fallocate(fd, offset, size, PUNCH)

    def op_create(self, path, unit, count, object_size):
        self.fs.close(self.opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        self.fs.setxattr(self.at(path), "ceph.file.layout", (LAYOUT % (unit, count, object_size)).encode(), 0)

    def op_lay(self, path, unit, count, object_size):
        self.fs.setxattr(self.at(path), "ceph.dir.layout", (LAYOUT % (unit, count, object_size)).encode(), 0)

    def op_chmod(self, path, mode):
        self.fs.chmod(self.at(path), mode)

    def op_chown(self, path, uid, gid):
        self.fs.lchown(self.at(path), uid, gid)

    def op_utimes(self, path, atime, mtime):
        self.native.set_times(self.at(path), atime, mtime)

    def op_list(self, path, at):
        """Read a directory, then go back to a place in the middle and read on from there."""
        with self.fs.opendir(self.at(path)) as opened:
            places, names = [opened.telldir()], []
            for entry in iter(opened.readdir, None):
                if entry.d_name not in (b".", b".."):
                    names.append(entry.d_name)
                    places.append(opened.telldir())
            opened.seekdir(places[min(at, len(names))])
            rest = [entry.d_name for entry in iter(opened.readdir, None) if entry.d_name not in (b".", b"..")]
        if rest != names[at:]:
            return [text_of(names), text_of(rest)]
        return [text_of(names), len(rest)]

    def op_open(self, path, slot, append):
        """Keep a file open."""
        self.kept[slot] = self.opened(path, os.O_RDWR | (os.O_APPEND if append else 0))

    def op_put(self, slot, seed, size, offset):
        self.fs.write(self.kept[slot], content(seed, size), offset)

    def op_get(self, slot, offset, size):
        return told(self.fs.read(self.kept[slot], offset, size) if size else b"")

    def op_cut(self, slot, size):
        self.fs.ftruncate(self.kept[slot], size)

    def op_sync(self, slot):
        self.fs.fsync(self.kept[slot], 0)

    def op_about(self, slot):
        about = self.fs.fstat(self.kept[slot])
        return [about.st_size, about.st_nlink]

    def op_lock(self, slot, kind):
        self.fs.flock(self.kept[slot], FLOCK[kind] | NO_WAIT, 100 + slot)

    def op_shut(self, slot):
        self.fs.close(self.kept.pop(slot))

    def op_rename_snap(self, path, snap, to):
        self.fs.rename(self.snap_at(path, snap), self.snap_at(path, to))

    def op_fail(self, how):
        """Only fail the metadata server: a program on another machine cannot kill it."""
        with rados.Rados(conffile=self.settings["conf"], name=self.settings["name"]) as cluster:
            command = {"prefix": "mds fail", "role_or_gid": "0"}
            code, _, why = cluster.mon_command(json.dumps(command), b"")
        if code:
            raise OSError(-code, why)

    def op_evict(self):
        """Only mount again: a program that evicts itself ends, and with it the other sides."""
        place = self.op_synced()["place"]
        self.close()
        self.fs = self.mounted()
        self.begin(place)

    def op_synced(self):
        """Sync everything. Returns the place, and the number of each mount: whoever kills this program needs them."""
        mounts = [self.fs, self.opened_native] if self.opened_native else [self.fs]
        for mount in mounts:
            mount.sync_fs()
        return {"place": self.place.decode().strip("/"), "mounts": [mount.get_instance_id() for mount in mounts]}

    def op_look(self, whole=False):
        """Everything below the place: path -> description. whole: with owners, times, modes and layouts."""
        tree = {}
        self.whole = whole
        self.look_into("", tree)
        return tree

    def look_into(self, path, tree):
        for name in self.names_in(path):
            below = path + name
            tree[below] = self.all_of(below)
            if tree[below]["is"] == "directory":
                self.look_into(below + "/", tree)
        if "/.snap/" not in "/" + path:
            for snap in self.names_in(path + ".snap"):
                if not snap.startswith("_"):  # a snapshot of a directory above
                    self.look_into(path + ".snap/" + snap + "/", tree)
                    tree[path + ".snap/" + snap] = {"is": "snapshot"}

    def names_in(self, path):
        with self.fs.opendir(self.at(path)) as opened:
            names = [entry.d_name for entry in iter(opened.readdir, None)]
        return text_of(name for name in names if name not in (b".", b".."))

    def all_of(self, path):
        about = self.fs.lstat(self.at(path))
        owner = {"owner": [about.st_uid, about.st_gid], "times": self.native.times(self.at(path))} if self.whole else {}
        if stat.S_ISLNK(about.st_mode):
            return {"is": "link", "to": self.fs.readlink(self.at(path), 4096).decode(), **owner}
        kind = "dir" if stat.S_ISDIR(about.st_mode) else "file"
        mode = {"mode": stat.S_IMODE(about.st_mode), "layout": self.layout(path, kind)} if self.whole else {}
        listed = self.fs.listxattr(self.at(path))[1].split(b"\0")
        names = sorted(name.decode() for name in listed if name.startswith(b"user."))
        xattrs = {"xattrs": {name: told(self.fs.getxattr(self.at(path), name, XATTR_BYTES)) for name in names}}
        if kind == "dir":
            return {"is": "directory", **owner, **mode, **xattrs}
        content = told(b"") if not about.st_size else self.op_read(path, 0, about.st_size)
        return {"is": "file", "names": about.st_nlink, "now": content, **owner, **mode, **xattrs}

    def layout(self, path, kind):
        try:
            words = self.fs.getxattr(self.at(path), "ceph.%s.layout" % kind).decode().split()
        except cephfs.NoData:
            return None
        parts = dict(word.split("=") for word in words)
        return [int(parts[name]) for name in ("stripe_unit", "stripe_count", "object_size")]


def text_of(names):
    return sorted(name.decode("utf-8", "surrogateescape") for name in names)
