#!/usr/bin/env bash
# Shows that a client that is working while the monitors' store is rebuilt from the OSDs hangs for ever afterwards.
# Starts a cluster of its own: one monitor, one OSD.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"

HANGS_S=30

# client FILE COUNT: writes COUNT objects (0: for ever), and keeps the number written so far in a file. It replaces its
# shell, so that killing the shell's process ends it.
client() {
  exec python3 - "$@" <<'PYTHON'
import os
import sys
import time
from pathlib import Path

import rados

with rados.Rados(conffile=os.environ["CEPH_CONF"]) as cluster, cluster.open_ioctx("work") as ioctx:
    done = 0
    while done != int(sys.argv[2]) or not done:
        ioctx.write_full("o", b"a" * 4096)
        done += 1
        Path(sys.argv[1]).write_text(str(done))
        time.sleep(0.1)
PYTHON
}
done_least() { [ "$(cat "$dir/done" 2>/dev/null || echo 0)" -ge "$1" ]; }

configure a
start mon.a
make_osd
start osd.0
ceph osd pool create work 8 >"$dir/pool.out" 2>&1 || fail "the pool was not made"
client "$dir/done" 0 2>"$dir/client.out" &
within 60 done_least 10 || fail "the client does nothing"

# https://docs.ceph.com/en/latest/rados/troubleshooting/troubleshooting-mon/#recovery-using-osds
stop osd.0 || fail "osd.0 did not stop"
stop mon.a || fail "mon.a did not stop"
mkdir "$dir/gathered"
ceph-objectstore-tool --no-mon-config --data-path "$dir/osd.0" --op update-mon-db --mon-store-path "$dir/gathered" \
  >"$dir/gather.out" 2>&1 || fail "the OSD's part could not be read"
ceph-monstore-tool "$dir/gathered" rebuild -- --keyring "$dir/keyring" --mon-ids a >"$dir/rebuild.out" 2>&1 ||
  fail "the store could not be rebuilt"
rm -r "$dir/mon.a/store.db"
mv "$dir/gathered/store.db" "$dir/mon.a/"
before=$(cat "$dir/done")
start mon.a
start osd.0
timeout 60 bash -c "$(declare -f client); client $dir/new 10" 2>"$dir/new.out" || fail "a client that comes anew does nothing"
within $HANGS_S done_least $((before + 10)) && word="not seen" || word=seen
after=$(($(cat "$dir/done") - before))
refused=$(grep -c "attempt to reclaim global_id .* using bad ticket" "$dir/mon.a.log" || true)
echo "$word: a client that came anew wrote; the one that was at work did $after operations, within ${HANGS_S} s at most;" \
  "the monitor refused an old global id $refused times"
