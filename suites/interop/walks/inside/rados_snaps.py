"""Snapshots as a side of a walk over RADOS makes them."""

import rados


class Pooled:
    """Snapshots of the whole pool, which the monitors name. Names begin with the walk's place."""

    def __init__(self, side):
        self.side = side

    def refresh(self):
        """Get the newest map. With an older one a write may miss snapshots that another side made."""
        self.side.cluster.wait_for_latest_osdmap()

    def ids(self):
        place, snaps = self.side.place, self.side.ioctx.list_snaps()
        return {snap.name[len(place) :]: snap.snap_id for snap in snaps if snap.name.startswith(place)}

    def make(self, snap):
        self.side.io.create_snap(self.side.place + snap)

    def drop(self, snap):
        self.side.io.remove_snap(self.side.place + snap)

    def rollback(self, ioctx, key, snap):
        ioctx.snap_rollback(key, self.side.place + snap)


class Managed:
    """Snapshots that clients number and list themselves, in an object beside the walk's, and pass with every write."""

    def __init__(self, side):
        self.side = side
        self.list = side.cluster.open_ioctx(side.pool)

    def refresh(self):
        self.side.ioctx.set_self_managed_snap_write(list(self.ids().values()))

    def ids(self):
        self.list.set_namespace(self.side.place + "-snaps")
        try:
            return json.loads(self.list.read("list"))
        except rados.ObjectNotFound:
            return {}

    def make(self, snap):
        number = self.side.ioctx.create_self_managed_snap()
        self.list_as({**self.ids(), snap: number})

    def drop(self, snap):
        ids = self.ids()
        number = ids.pop(snap)
        self.list_as(ids)
        self.side.ioctx.remove_self_managed_snap(number)

    def list_as(self, ids):
        self.list.write_full("list", json.dumps(ids).encode())

    def rollback(self, ioctx, key, snap):
        ioctx.rollback_self_managed_snap(key, self.ids()[snap])
