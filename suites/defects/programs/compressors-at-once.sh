#!/usr/bin/env bash
# Shows that threads that request a plugin's compressor at the same time get one that is freed while they use it.
# Needs librados, libceph-common, the plugin zlib and a processor for which it uses ISA-L, but no cluster.
set -euo pipefail

python3 - <<'PYTHON'
import collections
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

TRIED_S = 40
ZLIB = 2  # Compressor::COMP_ALG_ZLIB
CREATE = "_ZN4ceph10Compressor6createEPNS_6common11CephContextEi"


class Shared(ctypes.Structure):
    """A std::shared_ptr. The third word makes the call return it in memory, as C++ does."""

    _fields_ = [("object", ctypes.c_size_t), ("control", ctypes.c_size_t), ("unused", ctypes.c_size_t)]


def context():
    """A client's configuration and plugins."""
    librados = ctypes.CDLL("librados.so.2", mode=ctypes.RTLD_GLOBAL)  # the plugin needs its symbols
    cluster = ctypes.c_void_p()
    librados.rados_create(ctypes.byref(cluster), b"admin")
    if librados.rados_conf_read_file(cluster, os.environ["CEPH_CONF"].encode() if "CEPH_CONF" in os.environ else None):
        raise SystemExit("there is no configuration to read")
    librados.rados_cct.restype = ctypes.c_void_p
    return librados, cluster, librados.rados_cct(cluster)


def ask(create, cct, stop, given):
    while not stop.is_set():
        got = create(cct, ZLIB)
        given[got.object, got.control] += 1


def counted(control):
    """The reference count that the object itself keeps."""
    return ctypes.c_int.from_address(control + ctypes.sizeof(ctypes.c_void_p)).value


def tried():
    """Request the compressor in two threads while a third makes the plugin recreate it. Returns what went wrong."""
    librados, cluster, cct = context()
    [common] = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libceph-common" in line}
    create = getattr(ctypes.CDLL(common), CREATE)
    create.restype, create.argtypes = Shared, (ctypes.c_void_p, ctypes.c_int)
    if not create(cct, ZLIB).object:
        raise SystemExit("the plugin zlib cannot be loaded")
    stop, counts = threading.Event(), [collections.Counter() for _ in range(2)]
    threads = [threading.Thread(target=ask, args=(create, cct, stop, given)) for given in counts]
    for thread in threads:
        thread.start()
    end, made = time.monotonic() + TRIED_S, 0
    while time.monotonic() < end:
        # The first load is a single moment. Changing the use of ISA-L makes the plugin create another compressor.
        librados.rados_conf_set(cluster, b"compressor_zlib_isal", (b"false", b"true")[made % 2])
        made += 1
    stop.set()
    for thread in threads:
        thread.join()
    given = sum(counts, collections.Counter())
    if len(given) < 3:
        raise SystemExit("the plugin made no other compressor, so nothing can be told")
    [(apart, _)] = collections.Counter(one - control for one, control in given).most_common(1)
    torn = sum(1 for one, control in given if one - control != apart)
    held = collections.Counter()
    for (_, control), times in given.items():
        held[control] += times
    # The plugin holds one more reference to each, and so does the first call.
    freed = sum(1 for control, times in held.items() if not times <= counted(control) <= times + 2)
    said = f"of {len(given)} compressors {freed} do not count the references that were given out, {torn} are of two halves"
    return said, freed + torn


reader, writer = os.pipe()
child = os.fork()
if not child:
    os.close(reader)
    said, wrong = tried()
    os.write(writer, f"{'seen' if wrong else 'not seen'}: {said}".encode())
    os._exit(0)
os.close(writer)
answer = os.fdopen(reader).read()
_, status = os.waitpid(child, 0)
if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
    print(f"seen: two threads asked for a compressor, and the process ended with signal {os.WTERMSIG(status)}")
elif answer:
    print(answer)
else:
    sys.exit(2)
PYTHON
