#!/usr/bin/env bash
# An erasure-coded pool p whose objects can be overwritten, in a cluster of small-cluster.sh with two OSDs: with 2+1 the
# third chunk is missing.

active() { ceph pg stat 2>/dev/null | grep -q '1 active+undersized'; }

# make_pool: starts the cluster, and creates the pool in it.
# shellcheck disable=SC2154 # dir is small-cluster.sh's
make_pool() {
  configure a
  start mon.a
  start_two_osds
  {
    ceph osd erasure-code-profile set e k=2 m=1 crush-failure-domain=osd &&
      ceph osd pool create p 1 erasure e && ceph osd pool set p min_size 2 && ceph osd pool set p allow_ec_overwrites true
  } >"$dir/pool.out" 2>&1 || fail "no pool was created"
}
