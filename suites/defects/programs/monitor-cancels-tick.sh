#!/usr/bin/env bash
# Shows that a monitor that starts with an empty store and has an election that times out cancels its own tick: it is in
# the quorum but gives no id to new clients. Starts a cluster of its own: three monitors, one of which hears the others
# late.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"

TRIED_S=45
SILENT_S=4 # there is one tick each second

state() { asked mon.b mon_status | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"])' 2>/dev/null; }
is() { [ "$(state)" = "$1" ]; }
ticks() { grep -c ' e[0-9]* tick$' "$dir/mon.b.log" || true; }

# gives_id NAME: whether that monitor gives a new client an id within 10 s.
gives_id() {
  python3 - "$(sed -n 's/^mon_host = //p' "$CEPH_CONF" | cut -d , -f "$1")" 2>>"$dir/client.out" <<'PYTHON'
import os
import sys

import rados

cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
cluster.conf_set("mon_host", sys.argv[1])
cluster.conf_set("client_mount_timeout", "10")
cluster.connect()
cluster.shutdown()
PYTHON
}

configure a b c
start mon.a
start mon.c
within 30 gives_id 1 || fail "two monitors do not serve"

# Elections of mon.b time out, because messages from the others arrive up to 1.5 s late.
start mon.b --debug-mon 11 --mon-tick-interval 1 --mon-election-timeout 0.3 \
  --ms-inject-delay-type mon --ms-inject-delay-probability 1 --ms-inject-delay-max 1.5
silent=0 before=0
while [ $SECONDS -lt $TRIED_S ] && [ $silent -lt $SILENT_S ]; do
  sleep 1
  now=$(ticks)
  [ "$now" = "$before" ] && silent=$((silent + 1)) || silent=0
  before=$now
done
timed_out=$(grep -c "election period ended" "$dir/mon.b.log" || true)

asked mon.b config set ms_inject_delay_probability 0 >"$dir/set.out"
asked mon.b config set mon_election_timeout 5 >>"$dir/set.out"
within 30 is peon || fail "mon.b is not in the quorum"
sleep $SILENT_S
now=$(ticks)
sleep $SILENT_S
silent=$(($(ticks) - now))
gives_id 1 || fail "mon.a gives a new client no id, so this is something else"
gives_id 2 && gives="gave a new client its id" || gives="gave a new client no id within 10 s"
said="$timed_out elections of mon.b timed out; then it was in the quorum, ticked $silent times in $SILENT_S s, and $gives"
case $silent,$gives in
0,*" no id "*) echo "seen: $said" ;;
[1-9]*,*" its id") echo "not seen: $said" ;;
*) fail "$said: so this is something else" ;;
esac
