#!/usr/bin/env bash
# Shows that a backfilled OSD ends with old statistics of a PG. Starts a cluster of its own: one monitor, two OSDs.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"

PG=1.0

# client NAMES...: writes an object of each name. With "newer" it first waits until osd.1 has, in its queue, the message
# that ends its backfill.
client() {
  python3 - "$dir/osd.1.asok" "$@" <<'PYTHON'
import json
import socket
import sys
import time

import rados


def ending():
    with socket.socket(socket.AF_UNIX) as asok:
        try:
            asok.connect(sys.argv[1])
        except OSError:  # it does not listen yet
            return False
        asok.sendall(b'{"prefix": "dump_ops_in_flight", "format": "json"}\0')
        answer = b"".join(iter(lambda: asok.recv(65536), b""))
    return b"pg_backfill(finish" in answer


with rados.Rados(rados_id="admin", conffile="") as cluster, cluster.open_ioctx("p") as pool:
    deadline = time.monotonic() + 60
    for name in sys.argv[2:]:
        while name == "newer" and not ending():
            if time.monotonic() > deadline:
                raise SystemExit("osd.1 was never seen with the end of a backfill in its queue")
            time.sleep(0.01)
        pool.write_full(name, name.encode())
PYTHON
}

# pg: prints the PG's state and the number of objects that its primary counts.
pg() {
  ceph tell $PG query 2>"$dir/query.out" | python3 -c 'import json, sys
pg = json.load(sys.stdin)
print(pg["state"], pg["acting"][0], pg["info"]["stats"]["stat_sum"]["num_objects"])'
}
clean() { [[ $(pg) == "active+clean 1 "* ]]; }

configure a
cat >>"$dir/ceph.conf" <<CONF
[mon]
osd_crush_chooseleaf_type = 0
[osd]
# A log so short that every OSD that comes back needs a backfill.
osd_min_pg_log_entries = 1
osd_max_pg_log_entries = 2
osd_pg_log_trim_min = 1
CONF
start mon.a
start_two_osds
ceph osd primary-affinity osd.0 0 >"$dir/affinity.out" 2>&1 || fail "osd.1 is not the primary"
ceph osd pool create p 1 >"$dir/pool.out" 2>&1 || fail "no pool was created"
ceph osd pool set p size 2 >"$dir/pool.out" 2>&1 || fail "the pool has one copy"
client older
within 60 clean || fail "$PG is not clean"

stop osd.1 || fail "osd.1 did not stop"
client 1 2 3 4
# mClock takes the disk for one of one operation a second, and limits only recovery to that: its messages wait.
start osd.1 --osd_op_num_shards=1 --osd_mclock_max_capacity_iops_hdd=1 --osd_mclock_max_capacity_iops_ssd=1 \
  --osd_mclock_profile=custom --osd_mclock_scheduler_background_recovery_lim=1
client newer
within 60 clean || fail "$PG is not clean after the backfill"

read -r _ _ counted < <(pg)
objects=$(rados -p p ls | wc -l)
if [ "$counted" -ne "$objects" ]; then
  echo "seen: osd.1 has $objects objects and counts $counted; a write overtook the end of its backfill"
else
  echo "not seen: osd.1 has $objects objects and counts $counted"
fi
