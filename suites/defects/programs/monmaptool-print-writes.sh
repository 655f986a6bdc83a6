#!/usr/bin/env bash
# Shows that `monmaptool --print` writes the map back, with the configured fsid in it.
# Needs monmaptool, but no cluster.
set -euo pipefail

cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT
printf '[global]\nfsid = 00000000-0000-4000-8000-000000004711\n' >conf
monmaptool --create --fsid 00000000-0000-4000-8000-000000000815 --add a 127.0.0.1 map >&2
cp map before
monmaptool -c conf --print map >printed
cat printed >&2
if cmp -s map before; then
  echo "not seen: the map's file is as it was"
else
  echo "seen: the map's file changed; $(grep -E '^fsid|set fsid' printed | head -n 1)"
fi
