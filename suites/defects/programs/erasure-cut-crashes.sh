#!/usr/bin/env bash
# Shows that an operation that replaces an object of an erasure-coded pool and then truncates it ends its OSD. Starts a
# cluster of its own: one monitor, two OSDs.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"
# shellcheck source=suites/defects/programs/shared/erasure-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/erasure-pool.sh"

ulimit -c 0
make_pool
python3 - <<'PYTHON' >"$dir/client.out" 2>&1 &
import rados

with rados.Rados(rados_id="admin", conffile="") as cluster, cluster.open_ioctx("p") as pool:
    pool.write_full("o", b"a" * 100)
    with rados.WriteOpCtx() as operation:
        operation.write_full(b"b" * 100)
        operation.truncate(50)
        pool.operate_write_op(operation, "o")
    print(pool.read("o"), flush=True)
PYTHON
holds() { grep -q "b'b\{50\}'" "$dir/client.out"; }
crashed() { grep -h -m1 -o "FAILED ceph_assert(op.truncate.*" "$dir"/osd.*.log >"$dir/assert.out"; }
either() { holds || crashed; }

within 60 either || fail "neither an assertion nor the wanted content: $(tail -1 "$dir/client.out")"
said="an object was replaced and truncated in one operation"
if holds; then
  echo "not seen: $said, and it holds what it must"
else
  echo "seen: $said; its OSD ended: $(head -1 "$dir/assert.out")"
fi
