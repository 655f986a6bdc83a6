#!/usr/bin/env bash
# Shows that the LRC profile k=2,m=1,l=3 gets no global parity: a decode that needs it gives wrong bytes.
# Needs ceph-erasure-code-tool and the plugins lrc and jerasure, but no cluster.
set -euo pipefail

profile=plugin=lrc,k=2,m=1,l=3
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
head -c 8192 /dev/urandom >object
cp object original
ceph-erasure-code-tool encode "$profile" 4096 0,1,2,3 object >&2
[ -e object.2 ] || { echo "the tool wrote no chunk 2" >&2; exit 2; }
rm object
# Chunk 0 is lost: what remains is data (1) and the global parity (2).
if ! ceph-erasure-code-tool decode "$profile" 4096 1,2 object >&2; then
  echo "not seen: the decode from chunks 1 and 2 was refused"
elif cmp -s <(head -c 8192 object) original; then
  echo "not seen: the decode from chunks 1 and 2 gave the object"
else
  echo "seen: the decode from chunks 1 and 2 ended well, and its bytes are not the object's"
fi
