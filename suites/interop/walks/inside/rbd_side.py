"""A side of a walk over RBD: images of one pool, through librbd. A step opens its image again, unless it is kept open.

Settings: conf, name, pool (created if missing), place (prefix of the names that the walk creates).
"""

import errno

import rados
import rbd

FEATURES = {
    "object-map": rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF,
    "journaling": rbd.RBD_FEATURE_JOURNALING,
}

# A clone would otherwise have the features that its parent has at the time.
AT_FIRST = (
    FEATURES["object-map"] | rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_DEEP_FLATTEN
)

SETTINGS = {"conf": "/etc/ceph/ceph.conf", "name": "client.admin", "pool": "walk"}


class Side(Opened):
    """One librbd client."""

    refusals = (rados.Error, rbd.Error, OSError, ValueError, TypeError)

    def __init__(self, settings):
        # A discard must clear exactly its range. By default librbd skips parts below 64 KiB.
        self.conf = {
            "conffile": settings["conf"],
            "name": settings["name"],
            "conf": {"rbd_skip_partial_discard": "false"},
        }
        self.cluster = rados.Rados(**self.conf)
        self.cluster.connect()
        if settings["pool"] not in self.cluster.list_pools():
            self.cluster.create_pool(settings["pool"])
        self.cluster.wait_for_latest_osdmap()
        self.io = self.cluster.open_ioctx(settings["pool"])
        self.io.application_enable("rbd", True)
        self.place = ""
        self.kept, self.stream = {}, None

    def begin(self, place):
        """Go to an empty place."""
        self.close_all()
        self.place = place + "."

    def close(self):
        self.close_all()
        self.io.close()
        self.cluster.shutdown()

    def word(self, error):
        """A refusal as one word, or the full text of an error that no walk expects."""
        known = {rbd.ImageNotFound: "ENOENT", rbd.ImageExists: "EEXIST", rbd.ImageBusy: "EBUSY"}
        return known.get(type(error)) or "%s: %s" % (type(error).__name__, error)

    def layout(self, order, stripes):
        """The arguments of a layout. stripes: number of objects to stripe over.

        The stripe unit is always given: a migration takes that of the source, which may be larger than an object.
        """
        return {"order": order, "stripe_unit": 1 << (order - (stripes > 1)), "stripe_count": stripes}

    def op_create(self, image, size, **layout):
        options = {"features": AT_FIRST, **self.layout(**layout)}
        rbd.RBD().create(self.io, self.place + image, size, old_format=False, **options)

    def op_remove(self, image):
        rbd.RBD().remove(self.io, self.place + image)

    def op_rename(self, image, to):
        rbd.RBD().rename(self.io, self.place + image, self.place + to)

    def op_write(self, image, seed, size, offset):
        with self.image(image) as opened:
            opened.write(content(seed, size), offset)

    def op_discard(self, image, offset, size):
        with self.image(image) as opened:
            opened.discard(offset, size)

    def op_write_zeroes(self, image, offset, size):
        with self.image(image) as opened:
            opened.write_zeroes(offset, size)

    def op_resize(self, image, size):
        with self.image(image) as opened:
            opened.resize(size)

    def op_snap(self, image, snap):
        with self.image(image) as opened:
            opened.create_snap(snap)
            opened.protect_snap(snap)

    def op_drop(self, image, snap):
        with self.image(image) as opened:
            opened.unprotect_snap(snap)
            opened.remove_snap(snap)

    def op_rollback(self, image, snap):
        with self.image(image) as opened:
            opened.rollback_to_snap(snap)

    def op_clone(self, image, snap, to, **layout):
        options = {"features": AT_FIRST, **self.layout(**layout)}
        rbd.RBD().clone(self.io, self.place + image, snap, self.io, self.place + to, **options)

    def op_flatten(self, image):
        with self.image(image) as opened:
            opened.flatten()

    def op_read(self, image, offset, size):
        with self.image(image) as opened:
            return told(opened.read(offset, size))

    def op_carry(self, image, since, snap, to):
        """Make a new image from diffs, as export-diff and import-diff do. since: a snapshot in between, or none."""
        with self.image(image, since or snap) as opened:
            rbd.RBD().create(self.io, self.place + to, opened.size(), opened.stat()["order"], old_format=False)
        with self.image(to) as target:
            if since:
                self.apply_difference(image, None, since, target)
            self.apply_difference(image, since or None, snap, target)

    def apply_difference(self, image, since, snap, target):
        extents = []
        with self.image(image, snap) as opened:
            size = opened.size()
            opened.diff_iterate(0, size, since, lambda *extent: extents.append(extent))
            target.resize(size)
            for offset, length, exists in extents:
                if exists:
                    target.write(opened.read(offset, length), offset)
                else:
                    target.discard(offset, length)

    def op_deep_copy(self, image, to, **layout):
        with self.image(image) as opened:
            opened.deep_copy(self.io, self.place + to, **self.layout(**layout))

    def op_read_at(self, image, snap, offset, size):
        with self.image(image, snap) as opened:
            return told(opened.read(offset, size))

    def op_differ(self, image, since, at, offset, size, whole):
        """Apply the differences in one place to what was there at `since`."""
        content = bytearray()
        if since:
            with self.image(image, since) as opened:
                there = max(0, min(size, opened.size() - offset))
                content += opened.read(offset, there) if there else b""
        content = content.ljust(size, b"\0")
        extents = []
        with self.image(image, at or None) as opened:
            opened.diff_iterate(offset, size, since or None, lambda *extent: extents.append(extent), whole_object=whole)
            for start, length, exists in extents:
                begin, end = max(start, offset), min(start + length, offset + size)
                if begin < end:
                    content[begin - offset : end - offset] = (
                        opened.read(begin, end - begin) if exists else bytes(end - begin)
                    )
        return told(content)

    def op_sparsify(self, image, size):
        with self.image(image) as opened:
            opened.sparsify(size)

    def op_feature(self, image, feature, on):
        with self.image(image) as opened:
            opened.update_features(FEATURES[feature], on)

    def op_rebuild(self, image):
        with self.image(image) as opened:
            opened.rebuild_object_map()

    def op_rename_snap(self, image, snap, to):
        with self.image(image) as opened:
            opened.rename_snap(snap, to)

    def op_shelve(self, image):
        """Move an image to the trash. This binding cannot list the trash during a migration, so its id is kept."""
        with self.image(image) as opened:
            number = opened.id()
        rbd.RBD().trash_move(self.io, self.place + image)
        self.io.write_full("trashed." + self.place + image, number.encode())

    def op_restore(self, image, to):
        number = self.io.read("trashed." + self.place + image).decode()
        rbd.RBD().trash_restore(self.io, number, self.place + to)

    def op_migrate(self, image, to, **layout):
        rbd.RBD().migration_prepare(self.io, self.place + image, self.io, self.place + to, **self.layout(**layout))

    def op_commit(self, image):
        rbd.RBD().migration_execute(self.io, self.place + image)
        rbd.RBD().migration_commit(self.io, self.place + image)

    def op_abort(self, image):
        rbd.RBD().migration_abort(self.io, self.place + image)

    def op_note(self, image, key, text):
        with self.image(image) as opened:
            opened.metadata_set(key, text)

    def op_drop_note(self, image, key):
        with self.image(image) as opened:
            opened.metadata_remove(key)

    def op_seize(self, image, seed, size, offset):
        """Write after breaking the lock of another client. Answers how a later write of that client ends."""
        with rados.Rados(**self.conf) as other, other.open_ioctx(self.io.name) as io:
            locked = rbd.Image(io, self.place + image)
            locked.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            with self.image(image) as opened:
                for owner in list(opened.lock_get_owners()):
                    opened.lock_break(owner["mode"], owner["owner"])
                opened.write(content(seed, size), offset)
            ended = [self.ending(locked.write, b"late" * size, offset), self.ending(locked.close)]
        return ended[0]

    def ending(self, call, *arguments):
        """How a call of a client ends that may have been shut out."""
        try:
            call(*arguments)
        except (rados.Error, rbd.Error) as error:
            return "ESHUTDOWN" if getattr(error, "errno", None) == errno.ESHUTDOWN else self.word(error)
        return "done"

    def group(self):
        """The walk's group of images, which is made at its first use."""
        if self.place + "group" not in rbd.RBD().group_list(self.io):
            rbd.RBD().group_create(self.io, self.place + "group")
        return rbd.Group(self.io, self.place + "group")

    def op_join(self, image):
        self.group().add_image(self.io, self.place + image)

    def op_leave(self, image):
        self.group().remove_image(self.io, self.place + image)

    def op_group_snap(self, snap):
        self.group().create_snap(snap)

    def op_group_drop(self, snap):
        self.group().remove_snap(snap)

    def op_group_rollback(self, snap):
        self.group().rollback_to_snap(snap)

    def op_members(self):
        """The names of the group's images and snapshots."""
        images = sorted(image["name"][len(self.place) :] for image in self.group().list_images())
        return [images, sorted(snap["name"] for snap in self.group().list_snaps())]

    def op_look(self, but):
        """Every image of the walk, but some: its size, content and parent, and the content of its snapshots."""
        names = [name[len(self.place) :] for name in rbd.RBD().list(self.io) if name.startswith(self.place)]
        return {name: self.all_of(name) for name in sorted(names) if name not in but}

    def all_of(self, image):
        with self.image(image) as opened:
            snaps = list(opened.list_snaps())
            state = {"order": opened.stat()["order"], "now": self.read_all(opened), "parent": self.parent_of(opened)}
            state["notes"] = dict(opened.metadata_list())
            state["grouped"] = bool(opened.group().get("name"))
            state["unmapped"] = bool(opened.flags() & rbd.RBD_FLAG_OBJECT_MAP_INVALID)
        for snap in snaps:
            group = snap.get("group", {}).get("snap_name")
            with rbd.Image(self.io, self.place + image) as opened:
                opened.set_snap_by_id(snap["id"])
                state["together at " + group if group else "at " + snap["name"]] = self.read_all(opened)
        return state

    def read_all(self, opened):
        size = opened.size()
        return told(opened.read(0, size) if size else b"")

    def parent_of(self, opened):
        try:
            _, parent, snap = opened.parent_info()
        except rbd.ImageNotFound:
            return None
        return [parent[len(self.place) :], snap]
