#!/usr/bin/env bash
# A cluster of this program's own, on 127.0.0.1, in a directory that is removed at the end. Needs Ceph's programs and
# Python's rados module. It finds plugins through the configuration of this machine (CEPH_CONF).

dir=$(mktemp -d)
trap 'end_all; rm -r "$dir"' EXIT
declare -A pid # process id of each daemon, by its name

# end_all: kills everything that was started.
end_all() {
  local job
  for job in $(jobs -p); do kill -KILL "$job" 2>/dev/null || true; done
  wait
}

# fail WORDS...: prints the last lines of every log, then what could not be done.
fail() {
  tail -n 5 "$dir"/*.out "$dir"/*.log >&2 || true
  echo "$*" >&2
  exit 2
}

# configure MONITORS...: writes the configuration, the keys and the first monitor map.
configure() {
  local plugins classes erasure name port ports hosts=() add=()
  plugins=$(ceph-conf --show-config-value plugin_dir)
  classes=$(ceph-conf --show-config-value osd_class_dir)
  erasure=$(ceph-conf --show-config-value erasure_code_dir)
  read -r -a ports < <(
    python3 - $# <<'PYTHON'
import socket
import sys

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*sorted(each.getsockname()[1] for each in sockets))  # ranks go by address
PYTHON
  )
  for name in "$@"; do
    port=${ports[${#hosts[@]}]}
    hosts+=("[v2:127.0.0.1:$port]")
    add+=(--addv "$name" "[v2:127.0.0.1:$port]")
  done
  cat >"$dir/ceph.conf" <<CONF
[global]
fsid = 00000000-0000-4000-8000-000000004711
mon_host = $(IFS=,; echo "${hosts[*]}")
keyring = $dir/keyring
run_dir = $dir
crash_dir = $dir
admin_socket = $dir/\$name.asok
log_file = $dir/\$name.log
mon_data = $dir/mon.\$id
osd_data = $dir/osd.\$id
plugin_dir = $plugins
osd_class_dir = $classes
erasure_code_dir = $erasure
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr1 = false
auth_allow_insecure_global_id_reclaim = false
mon_data_avail_crit = 1
mon_cluster_log_to_file = false
mon_allow_pool_size_one = true
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_objectstore = bluestore
osd_fast_shutdown_notify_mon = true
osd_mclock_skip_benchmark = true
bluestore_block_size = 1073741824
bluestore_fsck_on_mkfs = false
[client]
admin_socket =
log_file =
CONF
  export CEPH_CONF=$dir/ceph.conf
  make_key mon. --create-keyring --cap mon "allow *"
  make_key client.admin --cap mon "allow *" --cap osd "allow *"
  for name in osd.0 osd.1; do make_key $name --cap mon "allow profile osd" --cap osd "allow *"; done
  monmaptool --create --fsid 00000000-0000-4000-8000-000000004711 "${add[@]}" "$dir/monmap" >"$dir/monmap.out"
  for name in "$@"; do
    ceph-mon --mkfs -i "$name" --monmap "$dir/monmap" --keyring "$dir/keyring" >"$dir/mkfs.out" 2>&1 || fail "mkfs"
  done
}

# make_key NAME OPTIONS...: adds a key of the type that this release accepts.
make_key() {
  ceph-authtool "$dir/keyring" --gen-key -n "$1" "${@:2}" >"$dir/key.out" 2>&1 || fail "no key of $1 was made"
}

# start NAME OPTIONS...: starts a daemon, for example mon.a or osd.0, with further options.
start() {
  "ceph-${1%%.*}" -f -i "${1#*.}" "${@:2}" >>"$dir/$1.out" 2>&1 &
  pid[$1]=$!
}

# make_osd [NUMBER]: creates osd.0 or osd.1, whose disk is a file.
make_osd() {
  local number=${1:-0} uuid=00000000-0000-4000-8000-00000000472${1:-0}
  mkdir "$dir/osd.$number"
  ceph osd new "$uuid" "$number" >"$dir/new.out" 2>&1 || fail "osd new"
  ceph-osd --mkfs -i "$number" --osd-uuid "$uuid" >"$dir/mkfs.out" 2>&1 || fail "mkfs"
}

# within SECONDS COMMAND...: repeats a command until it succeeds, and fails after that time.
within() {
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}

# ended NAME: whether that daemon's process has ended.
ended() { ! kill -0 "${pid[$1]}" 2>/dev/null; }

# stop NAME: sends SIGTERM, and succeeds if the daemon ends within 20 s.
stop() { kill "${pid[$1]}" && within 20 ended "$1"; }

# asked NAME COMMAND...: prints a daemon's answer from its admin socket.
asked() { ceph --admin-daemon "$dir/$1.asok" "${@:2}" 2>/dev/null; }

# serves NAME: whether an OSD answers clients.
serves() { asked "$1" status | grep -q '"state": "active"'; }

# start_two_osds: creates osd.0 and osd.1, and waits until they serve.
start_two_osds() {
  local number
  for number in 0 1; do
    make_osd $number
    start osd.$number
  done
  for number in 0 1; do within 60 serves osd.$number || fail "osd.$number does not serve"; done
}
