#!/usr/bin/env bash
# Shows that an OSD that is stopped while it boots stays up in the map. Starts a cluster of its own: one monitor, one OSD.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"

STAYS_S=20

# osdmap: prints "up" or "down", and the epoch from which the OSD was last up.
osdmap() {
  ceph osd dump --format json | python3 -c 'import json, sys
[osd] = json.load(sys.stdin)["osds"]
print("up" if osd["up"] else "down", osd["up_from"])'
}
is() { [[ $(osdmap) == "$1 "* ]]; }

# booting: waits until osd.0 has asked a monitor to be marked up, and returns at once.
booting() {
  python3 - "$dir/osd.0.asok" <<'PYTHON'
import json
import socket
import sys
import time

deadline = time.monotonic() + 60
state = ""
while state != "booting":
    if time.monotonic() > deadline or state == "active":
        raise SystemExit(f"osd.0 is not seen booting; the last state seen is {state or 'none'}")
    try:
        with socket.socket(socket.AF_UNIX) as asok:
            asok.connect(sys.argv[1])
            asok.sendall(b'{"prefix": "status", "format": "json"}\0')
            answer = b"".join(iter(lambda: asok.recv(65536), b""))
        state = json.loads(answer[4:])["state"]
    except (OSError, ValueError, KeyError):
        time.sleep(0.002)  # it does not listen yet
PYTHON
}

configure a
start mon.a
make_osd
start osd.0
within 60 serves osd.0 || fail "osd.0 does not serve"
stop osd.0 || fail "osd.0 did not stop"
within 20 is down || fail "osd.0 was up and stopped, and the map does not call it down: this is something else"
read -r _ before < <(osdmap)

for _ in 1 2 3; do
  start osd.0
  booting && said="osd.0 had asked to be called up and was stopped" || said=
  stop osd.0 || fail "osd.0 did not stop"
  if [ -n "$said" ] && within 10 is up; then
    sleep $STAYS_S
    read -r state since < <(osdmap)
    if [ "$state" = up ]; then
      echo "seen: $said; ${STAYS_S} s after its end the map calls it up, since epoch $since (it was up in $before before)"
    else
      echo "not seen: $said; the map called it up and then down"
    fi
    exit
  fi
done
[ -n "$said" ] || fail "osd.0 was never seen booting"
echo "not seen: $said; the map did not call it up"
