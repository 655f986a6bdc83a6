"""What the Proxmox VE benchmark of 2020 says of the kernel's RBD client and librbd, as a ratio of their rates."""

from collections.abc import Mapping

from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import ratio_of
from cephlab.suites.hci.claims import SAID, note

OTHER_KERNEL = "not judged: system calls are expensive on such a machine, which slows librbd and not krbd"
_READS = "recorded only: the paper's krbd reads come from the page cache, which these bypass"


def note_krbd(recorder: Recorder, rates: Mapping[str, Interval], *, writes: bool, why_not: str) -> None:
    """Record the rate of krbd over that of librbd. why_not: why this machine cannot show it, empty if it can."""
    claim = "a slight advantage of librbd in writes" if writes else _READS
    bound = Bound(f"{SAID}: {claim}", most=1.0, basis=Basis.SHAPE) if writes else Bound(claim, basis=Basis.NOTED)
    note(recorder, "rate, krbd over librbd", ratio_of(rates["krbd"], rates["librbd"]), bound, why_not)


def judges_krbd(*, writes: bool, why_not: str) -> bool:
    """Whether `note_krbd` compares the rates with a limit."""
    return writes and not why_not
