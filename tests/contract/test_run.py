"""Every provider: running a program to its end."""

import hashlib
import random
import time
from signal import SIGKILL

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabError
from cephlab.lab.providers.host import Host
from tests.contract import probes
from tests.contract.conftest import FOREIGN, Place
from tests.contract.probes import python

pytestmark = [pytest.mark.real]

LARGE = 20_000_000
KILLED = {-9, 128 + 9}


def test_outputs_stay_apart(host: Host) -> None:
    result = host.run(("sh", "-c", "echo out; echo err >&2"))
    assert (result.stdout, result.stderr, result.code) == ("out\n", "err\n", 0)


def test_the_programs_are_of_the_hosts_architecture(host: Host) -> None:
    assert host.run(("uname", "-m")).stdout.strip() == host.arch.value
    header = host.run(python("import sys; sys.stdout.buffer.write(open(sys.executable, 'rb').read(20))"))
    assert int.from_bytes(header.stdout_bytes[18:20], "little") == host.arch.elf_machine


def test_facts_say_what_the_host_is(host: Host) -> None:
    facts = host.facts()
    assert facts.arch is host.arch
    assert facts.emulated == host.emulated
    assert host.emulated or host.arch is not FOREIGN
    assert facts.cores > 0
    assert facts.memory_bytes > 1 << 28
    assert facts.kernel


def test_an_unchecked_status_is_returned(host: Host) -> None:
    assert host.run(("sh", "-c", "exit 7"), check=False).code == 7


def test_a_checked_status_is_an_error_with_the_evidence(host: Host) -> None:
    with pytest.raises(CommandFailed) as caught:
        host.run(("sh", "-c", "echo said; echo why >&2; exit 3"))
    assert (caught.value.code, caught.value.stdout, caught.value.stderr) == (3, "said\n", "why\n")
    assert host.name in str(caught.value)


def test_an_end_by_signal_is_seen(host: Host) -> None:
    assert host.run(("sh", "-c", "kill -KILL $$"), check=False).code in KILLED


def test_a_missing_program_is_an_error(host: Host) -> None:
    with pytest.raises(LabError, match="no-such-program"):
        host.run(("no-such-program",))


@pytest.mark.parametrize("text", ["grüße, 雪 ☃", "two words", "$HOME `id` \"'", "a\nb", "", "-n", "*"])
def test_arguments_arrive_as_they_are(place: Place, text: str) -> None:
    assert place.native.run(("printf", "[%s][%s]", text, "last")).stdout == f"[{text}][last]"


def test_unicode_in_arguments_environment_and_output(host: Host) -> None:
    shown = host.run(("sh", "-c", 'printf "%s|%s" "$1" "$NAME"', "sh", "Grüße"), env={"NAME": "雪 ☃"})
    assert shown.stdout == "Grüße|雪 ☃"


def test_output_that_is_no_text_is_kept(host: Host) -> None:
    result = host.run(("printf", r"\377\000\376"))
    assert result.stdout_bytes == b"\xff\x00\xfe"


def test_large_output_is_whole(host: Host) -> None:
    source = "import sys\nfor n in range(2500): sys.stdout.write(f'{n:07d}\\n' * 1000); sys.stderr.write('e' * 100)"
    result = host.run(python(source), timeout_s=60)
    wanted = hashlib.sha256(b"".join(b"%07d\n" % n * 1000 for n in range(2500))).hexdigest()
    assert len(result.stdout_bytes) == LARGE
    assert hashlib.sha256(result.stdout_bytes).hexdigest() == wanted
    assert len(result.stderr_bytes) == 250_000


def test_large_input_is_whole(host: Host) -> None:
    data = random.Random(1).randbytes(LARGE)
    result = host.run(("sha256sum",), stdin=data, timeout_s=60)
    assert result.stdout.split()[0] == hashlib.sha256(data).hexdigest()


def test_large_input_comes_back_while_it_is_sent(host: Host) -> None:
    data = random.Random(2).randbytes(LARGE)
    assert host.run(("cat",), stdin=data, timeout_s=60).stdout_bytes == data


def test_input_that_nobody_reads_does_no_harm(host: Host) -> None:
    assert host.run(("true",), stdin=b"x" * 1_000_000).code == 0


def test_without_input_a_reader_sees_the_end(host: Host) -> None:
    assert host.run(("cat",), timeout_s=10).stdout == ""


def test_a_timeout_kills_for_real(host: Host) -> None:
    word = probes.mark()
    began = time.monotonic()
    with pytest.raises(CommandTimedOut) as caught:
        host.run(("sh", "-c", 'echo begun; sleep "$1"; echo ended', "sh", word), timeout_s=3)
    assert time.monotonic() - began < 15  # far below the 300 s that it asked for
    assert caught.value.stdout == "begun\n"
    assert probes.processes_with(host, word) == []


def test_a_running_program_is_seen_by_the_probe_that_looks_for_leftovers(host: Host) -> None:
    word = probes.mark()
    daemon = host.spawn(("sleep", word), log=probes.scratch(host))
    clock.wait(lambda: probes.processes_with(host, word), bool, what="the program", timeout_s=30)
    daemon.signal(SIGKILL)
    assert daemon.wait(30)
