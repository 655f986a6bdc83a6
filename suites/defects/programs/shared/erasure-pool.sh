#!/usr/bin/env bash
# An erasure-coded pool p whose objects can be overwritten, in a cluster of small-cluster.sh with two OSDs: with 2+1 the
# third chunk is missing.

serves() { asked "$1" status | grep -q '"state": "active"'; }
active() { ceph pg stat 2>/dev/null | grep -q '1 active+undersized'; }

# make_pool: starts the cluster, and creates the pool in it.
# shellcheck disable=SC2154 # dir is small-cluster.sh's
make_pool() {
  local number
  configure a
  start mon.a
  for number in 0 1; do
    make_osd $number
    start osd.$number
  done
  for number in 0 1; do within 60 serves osd.$number || fail "osd.$number does not serve"; done
  {
    ceph osd erasure-code-profile set e k=2 m=1 crush-failure-domain=osd &&
      ceph osd pool create p 1 erasure e && ceph osd pool set p min_size 2 && ceph osd pool set p allow_ec_overwrites true
  } >"$dir/pool.out" 2>&1 || fail "no pool was created"
}
