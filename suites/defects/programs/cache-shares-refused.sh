#!/usr/bin/env bash
# Shows that BlueStore cannot be opened with cache shares of 0.2 (kv) and 0.8 (meta), whose sum is 1.
# Needs ceph-osd, but no cluster.
set -euo pipefail

made() {
  mkdir "$dir/$1"
  ceph-osd --mkfs --id 4711 --no-mon-config --fsid 00000000-0000-4000-8000-000000004711 \
    --osd-uuid 00000000-0000-4000-8000-000000004712 --osd-data "$dir/$1" --osd-objectstore bluestore \
    --bluestore-block-size 1073741824 --bluestore-fsck-on-mkfs false --key AQAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA== \
    --log-file "$dir/$1.log" --log-to-stderr false --err-to-stderr false "${@:2}" >"$dir/$1.out" 2>&1
}

dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
made default || { cat "$dir/default.out" "$dir/default.log" >&2; exit 2; }
if made shares --bluestore-cache-autotune false --bluestore-cache-kv-ratio 0.2 --bluestore-cache-meta-ratio 0.8; then
  echo "not seen: a store was made with shares of 0.2 and 0.8"
else
  said=$(grep -h -o '_set_cache_sizes.*' "$dir/shares.log" "$dir/shares.out" | head -n 1)
  [ -n "$said" ] || { tail -n 20 "$dir/shares.out" "$dir/shares.log" >&2; exit 2; }
  echo "seen: $said"
fi
