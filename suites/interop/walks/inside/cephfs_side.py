"""A side of a walk over CephFS: a tree below one directory, through libcephfs.

Settings: conf, name, place (a directory below the root, created if missing).
"""

import contextlib
import ctypes
import errno
import os
import stat

import cephfs

SETTINGS = {"conf": "/etc/ceph/ceph.conf", "name": "client.admin"}
FLOCK = {"shared": 1, "exclusive": 2, "none": 8}
FCNTL = {"shared": 0, "exclusive": 1, "none": 2}
NO_WAIT = 4
XATTR_BYTES = 65536
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


class Ranges:
    """Range locks, for which the Python binding has no call: a separate mount through libcephfs' C API."""

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
        if path not in self.files:
            inode, handle, about = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(1024)
            who = ctypes.c_void_p(self.library.ceph_mount_perms(self.mount))
            self.call("ceph_ll_walk", self.mount, path, ctypes.byref(inode), about, 0, 0, who)
            self.call("ceph_ll_open", self.mount, inode, os.O_RDWR, ctypes.byref(handle), who)
            self.files[path] = handle
        return self.files[path]

    def lock(self, path, kind, start, length, owner):
        asked = Flock(FCNTL[kind], 0, start, length, owner)
        self.call("ceph_ll_setlk", self.mount, self.opened(path), ctypes.byref(asked), ctypes.c_uint64(owner), 0)

    def close(self):
        """Unmount, because the MDS releases the locks of a client that just disappears only after a minute."""
        for handle in self.files.values():
            self.call("ceph_ll_close", self.mount, handle)
        self.call("ceph_unmount", self.mount)
        self.call("ceph_release", self.mount)


class Side:
    """One client of CephFS."""

    refusals = (cephfs.Error, OSError)

    def __init__(self, settings):
        self.settings = settings
        self.fs = cephfs.LibCephFS(conffile=settings["conf"], auth_id=settings["name"].partition(".")[2])
        self.fs.mount()
        self.place, self.held, self.ranges = b"/", {}, None

    def begin(self, place):
        """Go to an empty place."""
        self.release()
        self.place = b"/" + place.encode() + b"/"
        with contextlib.suppress(cephfs.ObjectExists):
            self.fs.mkdir(self.place, 0o755)

    def release(self):
        """Release every lock."""
        for fd in self.held.values():
            self.fs.close(fd)
        self.held.clear()
        if self.ranges:
            self.ranges.close()
            self.ranges = None

    def close(self):
        self.release()
        self.fs.shutdown()

    def word(self, error):
        """A refusal as one word."""
        return errno.errorcode.get(getattr(error, "errno", 0), "%s: %s" % (type(error).__name__, error))

    def at(self, path):
        return self.place + path.encode("utf-8", "surrogateescape")

    def opened(self, path, flags):
        return self.fs.open(self.at(path), flags, 0o644)

    def op_write(self, path, seed, size, offset, flags=0):
        """Write and fsync. flags: for open, in addition to O_CREAT."""
        fd = self.opened(path, os.O_WRONLY | os.O_CREAT | flags)
        try:
            if size:  # an empty write crashes a program of reef: assert(len > 0) in file_to_extents
                self.fs.write(fd, content(seed, size), offset)
            self.fs.fsync(fd, 0)
        finally:
            self.fs.close(fd)

    def op_read(self, path, offset, size):
        fd = self.opened(path, os.O_RDONLY)
        try:
            return told(self.fs.read(fd, offset, size))
        finally:
            self.fs.close(fd)

    def op_truncate(self, path, size):
        self.fs.truncate(self.at(path), size)

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

    def op_setxattr(self, path, name, seed, size):
        self.fs.setxattr(self.at(path), name, content(seed, size), 0)

    def op_removexattr(self, path, name):
        self.fs.removexattr(self.at(path), name)

    def op_snap(self, path, snap):
        self.fs.mkdir(os.path.join(self.at(path), b".snap", snap.encode()), 0o755)

    def op_drop(self, path, snap):
        self.fs.rmdir(os.path.join(self.at(path), b".snap", snap.encode()))

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
        self.ranges = self.ranges or Ranges(self.settings)
        self.ranges.lock(self.at(path), kind, start, length, owner)

    def op_look(self):
        """Everything below the place: path -> description."""
        tree = {}
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
        return sorted(name.decode("utf-8", "surrogateescape") for name in names if name not in (b".", b".."))

    def all_of(self, path):
        about = self.fs.lstat(self.at(path))
        if stat.S_ISLNK(about.st_mode):
            return {"is": "link", "to": self.fs.readlink(self.at(path), 4096).decode()}
        listed = self.fs.listxattr(self.at(path))[1].split(b"\0")
        names = sorted(name.decode() for name in listed if name.startswith(b"user."))
        shared = {"xattrs": {name: told(self.fs.getxattr(self.at(path), name, XATTR_BYTES)) for name in names}}
        if stat.S_ISDIR(about.st_mode):
            return {"is": "directory", **shared}
        content = told(b"") if not about.st_size else self.op_read(path, 0, about.st_size)
        return {"is": "file", "names": about.st_nlink, "now": content, **shared}
