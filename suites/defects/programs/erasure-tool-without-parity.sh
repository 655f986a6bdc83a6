#!/usr/bin/env bash
# Shows that `ceph-erasure-code-tool encode` succeeds but writes no parity chunk.
# Needs that tool and the plugin jerasure, but no cluster.
set -euo pipefail

cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
head -c 8192 /dev/urandom >object
ceph-erasure-code-tool encode plugin=jerasure,technique=reed_sol_van,k=2,m=1 4096 0,1,2 object >&2
[ -e object.0 ] || { echo "the tool wrote no chunk at all" >&2; exit 2; }
if [ -e object.2 ]; then
  echo "not seen: chunks 0, 1 and 2 were asked for and written"
else
  echo "seen: chunks 0, 1 and 2 were asked for, and chunk 2, the parity, was not written"
fi
