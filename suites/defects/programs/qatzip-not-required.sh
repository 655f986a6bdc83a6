#!/usr/bin/env bash
# Shows that the zlib compressor in Debian's Ceph is linked with a QATzip library that no Ceph package depends on.
# Needs the compressor's plugin, but no cluster. If dpkg does not know the packages, it checks only the link.
set -euo pipefail

folder=$(ceph-conf -c "${CEPH_CONF:-/etc/ceph/ceph.conf}" --show-config-value plugin_dir)
plugin=$folder/compressor/libceph_zlib.so
[ -e "$plugin" ] || { echo "there is no $plugin" >&2; exit 2; }
library=$(grep -a -o 'libqatzip\.so\.[0-9]*' "$plugin" | head -n 1 || true)
wanted=$(dpkg-query -W -f '${Depends} ' ceph-base librados2 ceph-osd 2>/dev/null || true)
if [ -z "$library" ]; then
  echo "not seen: the plugin is not linked with libqatzip"
elif grep -q libqatzip <<<"$wanted"; then
  echo "not seen: a package requires $library"
elif [ -n "$wanted" ]; then
  echo "seen: the plugin is linked with $library, and none of ceph-base, librados2 and ceph-osd requires it"
else
  echo "seen: the plugin is linked with $library; what packages require is not known here"
fi
