#!/usr/bin/env bash
# Shows that BlueStore writes deferred data of removed objects over newer objects. Starts a cluster of its own: one
# monitor and one OSD, which is stopped and started twice.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"

# client older|newer: writes objects and waits until all writes are acknowledged.
# client blocks: prints where on the disk of the stopped OSD there are blocks of these objects.
client() {
  python3 - "$dir/osd.0/block" "$1" <<'PYTHON'
import hashlib
import sys

BLOCK = 4096
OBJECT = 1 << 20
OLDER, FILLER, NEWER = 64, 130, 64  # objects; the filler leaves little room, so that freed blocks are used again soon
disk, what = sys.argv[1:]


def block(name, at):
    """Data of a block, unlike that of all others."""
    return hashlib.sha256(f"{name} {at}".encode()).digest() * (BLOCK // 32)


def blocks(kind, objects, every=BLOCK):
    return [(f"{kind}.{number}", at) for number in range(objects) for at in range(0, OBJECT, every)]


def acknowledged(calls):
    for call in calls:
        call.wait_for_complete()
        if call.get_return_value() < 0:
            raise SystemExit(f"{what}: an operation failed with {call.get_return_value()}")


if what == "blocks":
    known = {block(*where): where for where in blocks("older", OLDER) + blocks("newer", NEWER)}
    with open(disk, "rb") as device:
        for at, data in enumerate(iter(lambda: device.read(BLOCK), b"")):
            if data in known:
                print(hex(at * BLOCK), *known[data])
else:
    import rados

    with rados.Rados(rados_id="admin", conffile="") as cluster, cluster.open_ioctx("p") as pool:
        if what == "newer":
            for number in range(NEWER):
                data = b"".join(block(f"newer.{number}", at) for at in range(0, OBJECT, BLOCK))
                acknowledged([pool.aio_write_full(f"newer.{number}", data)])
        else:
            for kind, objects in (("older", OLDER), ("filler", FILLER)):
                for number in range(objects):
                    acknowledged([pool.aio_write_full(f"{kind}.{number}", b"." * OBJECT)])
            deferred = blocks("older", OLDER, 4 * BLOCK)
            acknowledged([pool.aio_write(name, block(name, at), at) for name, at in deferred])
            acknowledged([pool.aio_remove(f"older.{number}") for number in range(OLDER)])
PYTHON
}

# serve: starts osd.0 and waits until it serves.
serve() {
  start osd.0
  within 60 serves osd.0 || fail "osd.0 does not serve"
}

configure a
cat >>"$dir/ceph.conf" <<CONF
[osd]
bluestore_block_size = 335544320
# Deferred writes wait in the database, as they do for up to 3 s with the defaults.
bluestore_deferred_batch_ops = 65535
bluestore_throttle_deferred_bytes = 1099511627776
bluestore_max_defer_interval = 3600
CONF
start mon.a
make_osd
serve
ceph osd pool create p 1 >"$dir/pool.out" 2>&1 || fail "no pool was created"

client older
# By default an OSD leaves its deferred writes when it is stopped, as it does after a crash (osd_fast_shutdown). RocksDB
# recovers into blocks of the removed objects. Deferred writes to these blocks are skipped and stay in the database.
stop osd.0 || fail "osd.0 did not stop"
serve
# RocksDB leaves the blocks, and newer objects get them.
asked osd.0 compact >"$dir/compact.out" || fail "osd.0 did not compact its database"
client newer
stop osd.0 || fail "osd.0 did not stop"
client blocks >"$dir/before"
# Nothing skips the deferred writes now.
serve
stop osd.0 || fail "osd.0 did not stop"
client blocks >"$dir/after"

written=$(grep -c newer "$dir/before") || fail "no block of the newer objects is on the disk"
# Sorted by the first field only, as join compares it in every locale.
lost=$(join <(grep newer "$dir/before" | sort -k1,1) <(sort -k1,1 "$dir/after") | awk '$2 != $4' | tee "$dir/lost" | wc -l)
if [ "$lost" -gt 0 ]; then
  read -r at newer offset older _ <"$dir/lost"
  echo "seen: a restart of the OSD overwrote $lost of $written acknowledged blocks with older writes to removed" \
    "objects; $newer at $offset (disk: $at) now holds $older"
else
  echo "not seen: none of $written acknowledged blocks holds an older write after the restart"
fi
