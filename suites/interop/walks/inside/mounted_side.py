"""A side of a walk over CephFS: a tree below one directory of a mounted file system, through the kernel.

Settings: folder (the mount point), place (a directory below it, created if missing). Needs Linux and root.
"""

import errno
import fcntl
import os
import stat
import struct

SETTINGS = {"folder": "/mnt"}
FLOCK = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX, "none": fcntl.LOCK_UN}
FCNTL = {"shared": fcntl.F_RDLCK, "exclusive": fcntl.F_WRLCK, "none": fcntl.F_UNLCK}
OWN_LOCK = 37
"""F_OFD_SETLK of Linux: a lock belongs to an open file description, so that one process can be several owners."""
RANGE = struct.Struct("hhqqi4x")
QUOTAS = {"bytes": "ceph.quota.max_bytes", "files": "ceph.quota.max_files"}


class Side:
    """One mount."""

    refusals = (OSError,)

    def __init__(self, settings):
        self.folder = os.fsencode(settings["folder"])
        self.place, self.held, self.stale = self.folder, {}, []

    def begin(self, place):
        """Go to an empty place."""
        self.close()
        self.place = os.path.join(self.folder, os.fsencode(place))
        os.makedirs(self.place, exist_ok=True)

    def close(self):
        """Release every lock."""
        for fd in self.held.values():
            os.close(fd)
        self.held.clear()

    def word(self, error):
        """A refusal as one word."""
        return errno.errorcode.get(error.errno, str(error))

    def at(self, path):
        return os.path.join(self.place, path.encode("utf-8", "surrogateescape"))

    def op_write(self, path, seed, size, offset, flags=0):
        """Write and fsync. flags: for open, in addition to O_CREAT."""
        fd = os.open(self.at(path), os.O_WRONLY | os.O_CREAT | flags, 0o644)
        try:
            rest, at = content(seed, size), offset
            while rest:
                written = os.pwrite(fd, rest, at)
                rest, at = rest[written:], at + written
            os.fsync(fd)
        finally:
            os.close(fd)

    def op_read(self, path, offset, size):
        """Read twice: directly, and after fstat, which gives the answer. A read that differed goes to `stale`.

        Linux 6.1 may use the size that it cached, and then reads nothing of what another client appended.
        """
        fd = os.open(self.at(path), os.O_RDONLY)
        try:
            try:
                first = told(self.all_from(fd, offset, size))
            except OSError as error:
                first = self.word(error)
            os.fstat(fd)
            answer = told(self.all_from(fd, offset, size))
        finally:
            os.close(fd)
        if answer != first:
            self.stale.append([path, offset, size, first, answer])
        return answer

    def op_stale(self):
        """Reads so far that gave another answer before fstat: path, offset, size, first answer, second answer."""
        return self.stale

    def all_from(self, fd, offset, size):
        content = b""
        while len(content) < size:
            piece = os.pread(fd, size - len(content), offset + len(content))
            if not piece:
                break
            content += piece
        return content

    def op_truncate(self, path, size):
        os.truncate(self.at(path), size)

    def op_mkdir(self, path):
        os.mkdir(self.at(path), 0o755)

    def op_rmdir(self, path):
        os.rmdir(self.at(path))

    def op_unlink(self, path):
        os.unlink(self.at(path))

    def op_rename(self, path, to):
        os.rename(self.at(path), self.at(to))

    def op_link(self, path, to):
        os.link(self.at(path), self.at(to))

    def op_symlink(self, target, path):
        os.symlink(target.encode(), self.at(path))

    def op_setxattr(self, path, name, seed, size):
        os.setxattr(self.at(path), name, content(seed, size))

    def op_removexattr(self, path, name):
        os.removexattr(self.at(path), name)

    def op_snap(self, path, snap):
        os.mkdir(os.path.join(self.at(path), b".snap", snap.encode()), 0o755)

    def op_drop(self, path, snap):
        os.rmdir(os.path.join(self.at(path), b".snap", snap.encode()))

    def op_quota(self, path, of, most):
        os.setxattr(self.at(path), QUOTAS[of], b"%d" % most)

    def op_pin(self, path, rank):
        """Pin a directory, with everything below it, to an active rank."""
        os.setxattr(self.at(path), "ceph.dir.pin", b"%d" % rank)

    def opened(self, path, owner):
        """The file opened by this owner, who has a file descriptor of their own."""
        if (path, owner) not in self.held:
            self.held[path, owner] = os.open(self.at(path), os.O_RDWR)
        return self.held[path, owner]

    def op_flock(self, path, kind, owner):
        """Lock a file, or release the lock."""
        fcntl.flock(self.opened(path, owner), FLOCK[kind] | fcntl.LOCK_NB)

    def op_range(self, path, kind, start, length, owner):
        """Lock a range of a file as fcntl does, or release it."""
        wanted = RANGE.pack(FCNTL[kind], os.SEEK_SET, start, length, 0)
        fcntl.fcntl(self.opened(path, owner), OWN_LOCK, wanted)

    def op_look(self):
        """Everything below the place: path -> description."""
        descriptions = {}
        self.look_into("", descriptions)
        return descriptions

    def look_into(self, path, descriptions):
        for name in self.names_in(path):
            below = path + name
            descriptions[below] = self.all_of(below)
            if descriptions[below]["is"] == "directory":
                self.look_into(below + "/", descriptions)
        if "/.snap/" not in "/" + path:
            for snap in self.names_in(path + ".snap"):
                if not snap.startswith("_"):  # a snapshot of a directory above
                    self.look_into(path + ".snap/" + snap + "/", descriptions)
                    descriptions[path + ".snap/" + snap] = {"is": "snapshot"}

    def names_in(self, path):
        return sorted(name.decode("utf-8", "surrogateescape") for name in os.listdir(self.at(path)))

    def all_of(self, path):
        about = os.lstat(self.at(path))
        if stat.S_ISLNK(about.st_mode):
            return {"is": "link", "to": os.readlink(self.at(path)).decode()}
        names = sorted(name for name in os.listxattr(self.at(path)) if name.startswith("user."))
        attributes = {"xattrs": {name: told(os.getxattr(self.at(path), name)) for name in names}}
        if stat.S_ISDIR(about.st_mode):
            return {"is": "directory", **attributes}
        return {"is": "file", "names": about.st_nlink, "now": self.op_read(path, 0, about.st_size), **attributes}
