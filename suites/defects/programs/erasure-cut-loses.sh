#!/usr/bin/env bash
# Shows that an operation that truncates an object of an erasure-coded pool and then overwrites a part before the new end
# zeroes what is between them. Starts a cluster of its own: one monitor, two OSDs.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"
# shellcheck source=suites/defects/programs/shared/erasure-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/erasure-pool.sh"

make_pool
timeout 60 python3 - <<'PYTHON' || fail "the client did not end"
import rados

with rados.Rados(rados_id="admin", conffile="") as cluster, cluster.open_ioctx("p") as pool:
    pool.write_full("o", b"a" * 100)
    with rados.WriteOpCtx() as operation:
        operation.truncate(50)
        operation.write(b"b" * 10, 10)
        pool.operate_write_op(operation, "o")
    left = pool.read("o")
said = "100 bytes a were truncated to 50 and 10 of them overwritten in one operation; %d of 40 are left" % left.count(b"a")
print("not seen" if left == b"a" * 10 + b"b" * 10 + b"a" * 30 else "seen", said, sep=": ")
PYTHON
