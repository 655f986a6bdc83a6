"""What a program prints about broken memory or code is heard, whoever runs it and whatever its status is."""

import sys
from pathlib import Path

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.alarms import HEARD, Alarm, alarms

ALARMING = (
    "==4242==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010",
    "SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior osd/PG.cc:12:3",
    "src/osd/PG.cc:12:3: runtime error: signed integer overflow: 1 + 2147483647",
    "WARNING: ThreadSanitizer: data race (pid=7)",
    "*** stack smashing detected ***: terminated",
    "*** buffer overflow detected ***: terminated",
    "malloc(): corrupted top size",
    "free(): invalid pointer",
    "munmap_chunk(): invalid pointer",
    "double free or corruption (!prev)",
    "corrupted size vs. prev_size in fastbins",
    "ceph-osd: malloc.c:2379: sysmalloc: Assertion `(old_top == initial_top (av))' failed.",
    "Fatal glibc error: malloc.c:4189 (_int_malloc): assertion failed",
    "src/tcmalloc.cc:309] Attempt to free invalid pointer 0x55f1c2f0c000",
    "terminate called after throwing an instance of 'ceph::buffer::end_of_buffer'",
    "pure virtual method called",
    "/usr/bin/ceph-osd: symbol lookup error: /usr/lib/libx.so: undefined symbol: y",
    "rados: error while loading shared libraries: librados.so.2: cannot open shared object file",
    "Segmentation fault (core dumped)",
    "==77== Invalid read of size 8",
    "./src/osd/OSD.cc: 4312: FAILED ceph_assert(r == 0)",
    "*** Caught signal (Aborted) **",
)
CALM = (
    "",
    "warning: unable to disable THP: (22) Invalid argument",
    "2026-11-23T20:23:16.664+0000 7f5d638806c0 -1 Falling back to public interface",
    "4096 bytes were freed (0 invalid)",
    "error: the image is locked",
)


@pytest.mark.parametrize("line", ALARMING)
def test_a_program_that_is_broken_says_so_in_one_of_these(line: str) -> None:
    assert list(alarms(f"fine\n{line}\nfine\n")) == [line]


@pytest.mark.parametrize("line", CALM)
def test_what_sound_programs_print_is_no_alarm(line: str) -> None:
    assert list(alarms(line)) == []


@pytest.mark.slow
def test_a_command_that_succeeds_is_heard_all_the_same() -> None:
    mark = HEARD.count()
    process.run([sys.executable, "-c", "import sys; print('free(): invalid pointer', file=sys.stderr)"])
    process.run([sys.executable, "-c", "print('free(): invalid pointer')"])
    assert HEARD.since(mark) == [Alarm(Path(sys.executable).name, "free(): invalid pointer")]
