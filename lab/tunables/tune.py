"""Checks, applies and reverts a tuning on machines and a cluster. The old state is on disk before anything changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import CleanUp, CleanupFailed, SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.lab.tunables import machine as machines
from cephlab.lab.tunables.machine import Machine, Seen, Write, current
from cephlab.lab.tunables.options import CephOptions
from cephlab.lab.tunables.records import Before, Records, TuningRecord
from cephlab.lab.tunables.settings import Finding, Kind, Scope, Setting, SettingChange, SettingOutcome, State

MACHINE_SCOPES = frozenset({Scope.NETWORK, Scope.FILES, Scope.KERNEL})
DOWN = "the host is down, so it was left out; start it and repeat"


@dataclass(frozen=True)
class Site:
    """A machine of a target. owned: scopes that may be changed there; shared: scopes that are only checked.

    up: whether it runs; nothing is read from one that does not.
    """

    machine: Machine
    owned: frozenset[Scope] = MACHINE_SCOPES
    shared: frozenset[Scope] = frozenset()
    up: bool = True

    def settings(self, settings: Sequence[Setting]) -> list[Setting]:
        """The settings that can be checked here."""
        return [setting for setting in settings if setting.scope in self.owned | self.shared]

    def read(self, settings: Sequence[Setting]) -> dict[str, dict[str, Seen]]:
        """The files that show these settings, by pattern; none of a machine that is down."""
        if not self.up:
            return {}
        return self.machine.read([pattern for setting in settings for pattern in machines.patterns(setting)])


@dataclass(frozen=True)
class Target:
    """Where a tuning is applied: machines, and a cluster, if any. records: records of the old state."""

    name: str
    sites: tuple[Site, ...]
    ceph: CephOptions | None
    records: Records


def check(target: Target, settings: Sequence[Setting]) -> list[Finding]:
    """Compare every setting in every place with its wanted value. Changes nothing."""
    findings = [finding for site in target.sites for finding in _look(site, site.settings(settings))]
    options = [option for option in settings if option.scope is Scope.CLUSTER]
    if target.ceph is not None:
        return findings + target.ceph.judge(options)
    return findings + [
        Finding(target.name, option, State.UNSEEN, why="a Ceph option needs a cluster") for option in options
    ]


def apply(target: Target, tuning: str, settings: Sequence[Setting]) -> list[SettingChange]:
    """Set what differs on one target; see `apply_to`."""
    return apply_to((target,), tuning, settings)


def apply_to(targets: Sequence[Target], tuning: str, settings: Sequence[Setting]) -> list[SettingChange]:
    """Set what differs, on one target after the other. An error half-way puts back what this call found on all of them.

    The old state is written to disk first, so a second call can continue after a killed one. The error gets a note that
    says what was put back; the record of what could not be is kept.
    """
    changes: list[SettingChange] = []
    begun: list[_Begun] = []
    try:
        for target in targets:
            findings = check(target, settings)
            old = target.records.get(tuning)
            number = old.number if old else target.records.next_number()
            now = tuple(_before(target, tuning, findings))
            begun.append(_Begun(target, now, old))
            before = tuple(_merged(old.before if old else (), now))
            target.records.write(TuningRecord(tuning, number, before))
            changes += [change for site in target.sites for change in _apply_site(site, tuning, findings)]
            changes += _apply_options(target, findings)
    except BaseException as error:
        _put_back(begun, tuning, error)
        raise
    return changes


def revert(target: Target, tuning: str) -> list[str]:
    """Restore what `apply` found, byte for byte; returns the restored places.

    Continues after an error, then raises CleanupFailed with all errors and keeps the record. SpecError if the tuning
    was not applied here, or if a later tuning changed the same settings.
    """
    record = target.records.get(tuning)
    if record is None:
        known = ", ".join(other.tuning for other in target.records.all()) or "none"
        raise SpecError(f"{tuning} was not applied to {target.name}", f"applied: {known}")
    above = [other for other in target.records.all() if other.number > record.number and other.knobs() & record.knobs()]
    if above:
        raise SpecError(
            f"{above[-1].tuning} was applied after {tuning}",
            f"both set {', '.join(sorted(above[-1].knobs() & record.knobs())[:3])}",
            f"revert {above[-1].tuning} first",
        )
    done, errors = _restore_all(target, record.before)
    if errors:
        raise CleanupFailed(errors, f"revert {tuning} again")
    target.records.forget(tuning)
    return done


# Looking


def _look(site: Site, settings: Sequence[Setting]) -> list[Finding]:
    if not site.up:
        return [Finding(site.machine.where, setting, State.UNREADABLE, why=DOWN) for setting in settings]
    sight = site.read(settings)
    return [machines.judge(site.machine.where, setting, sight) for setting in settings]


def _before(target: Target, tuning: str, findings: Sequence[Finding]) -> Iterator[Before]:
    for site in target.sites:
        if not site.up:
            continue
        drifted = _drifted(site, findings)
        swaps = None
        if any(setting.kind is Kind.SWAP for setting in drifted):
            content = site.machine.read(["/proc/swaps"])["/proc/swaps"]["/proc/swaps"]
            swaps = tuple(content.decode().splitlines()) if isinstance(content, bytes) else None
        yield Before(site.machine.where, files=_files(site, tuning, drifted), swaps=swaps)
    if target.ceph is not None:
        wanted = [
            finding.setting
            for finding in findings
            if finding.where == target.ceph.where and finding.state is State.DRIFT
        ]
        yield Before(target.ceph.where, options=target.ceph.before(wanted))


def _drifted(site: Site, findings: Sequence[Finding]) -> list[Setting]:
    """Settings to change on a site."""
    return [
        finding.setting
        for finding in findings
        if finding.where == site.machine.where
        and finding.state is State.DRIFT
        and finding.setting.scope in site.owned
        and not finding.setting.by_hand
    ]


def _files(site: Site, tuning: str, drifted: Sequence[Setting]) -> dict[str, bytes | None]:
    """The files that would be written, with their current content."""
    files: dict[str, bytes | None] = {}
    plain = [setting for setting in drifted if setting.kind not in (Kind.LIMITS, Kind.SWAP)]
    for contents in site.read(plain).values():
        files.update({path: content for path, content in contents.items() if isinstance(content, bytes)})
    if any(setting.kind is Kind.LIMITS for setting in drifted):
        path = machines.limits_file(tuning)
        content = site.machine.read([path])[path].get(path)
        files[path] = content if isinstance(content, bytes) else None
    return files


def _merged(old: Sequence[Before], new: Sequence[Before]) -> Iterator[Before]:
    """The earlier record, extended by what it does not cover. Its entries win: they are from before the tuning."""
    known = {before.where: before for before in old}
    for before in new:
        first = known.pop(before.where, before)
        yield Before(
            before.where,
            files={**before.files, **first.files},
            swaps=first.swaps if first.swaps is not None else before.swaps,
            options={**before.options, **first.options},
        )
    yield from known.values()


# Changing


def _apply_site(site: Site, tuning: str, findings: Sequence[Finding]) -> Iterator[SettingChange]:
    mine = [finding for finding in findings if finding.where == site.machine.where]
    limits = [finding.setting for finding in mine if finding.setting.kind is Kind.LIMITS]
    refused = _write(site, tuning, _drifted(site, findings), limits)
    after = {finding.setting: finding for finding in _look(site, [finding.setting for finding in mine])}
    for finding in mine:
        setting = finding.setting
        yield _change(finding, after[setting], refused=refused.get(setting, ""), owned=setting.scope in site.owned)


def _write(site: Site, tuning: str, drifted: Sequence[Setting], limits: Sequence[Setting]) -> dict[Setting, str]:
    """Write what differs; returns setting -> error. limits: all limits of the tuning, because they share a file."""
    refused: dict[Setting, str] = {}
    plain = [setting for setting in drifted if setting.kind not in (Kind.LIMITS, Kind.SWAP)]
    sight = site.read(plain)
    for setting in plain:
        paths = [path for pattern in machines.patterns(setting) for path in sight[pattern]]
        errors = site.machine.write([Write(path, f"{setting.value}\n".encode()) for path in paths])
        if errors:
            refused[setting] = "; ".join(f"{path}: {error}" for path, error in list(errors.items())[:2])
    if any(setting.kind is Kind.LIMITS for setting in drifted):
        file = Write(machines.limits_file(tuning), machines.limits_text(tuning, limits), create=True)
        errors = site.machine.write([file])
        refused.update(dict.fromkeys(limits, errors[file.path]) if errors else {})
    for setting in drifted:
        if setting.kind is Kind.SWAP and (failed := site.machine.swap("off")):
            refused[setting] = "; ".join(failed)
    return refused


def _change(before: Finding, after: Finding, *, refused: str, owned: bool = True, waits: bool = False) -> SettingChange:
    """The outcome for a setting, from its state now, not from what was requested. refused: the error; empty if none."""
    setting, outcome, why = before.setting, SettingOutcome.REFUSED, refused or after.why or f"it is still {after.got}"
    if before.state is State.SET:
        outcome, why = SettingOutcome.ALREADY, ""
    elif setting.by_hand:
        outcome, why = SettingOutcome.BY_HAND, by_hand_text(setting)
    elif before.state is not State.DRIFT:
        outcome, why = SettingOutcome.MISSING, before.why
    elif not owned:
        outcome, why = SettingOutcome.SHARED, "the nodes share it with the machine that runs them"
    elif after.state is State.SET:
        outcome, why = SettingOutcome.DONE, f"was {before.got}"
    elif waits and not refused:
        outcome, why = SettingOutcome.WAITS, "daemons use it after their next restart"
    return SettingChange(before.where, setting, outcome, why)


def by_hand_text(setting: Setting) -> str:
    """What a person has to do to set it."""
    if setting.kind is Kind.CMDLINE:
        return "add it to the boot loader's kernel command line and reboot"
    if setting.kind is Kind.BIOS:
        return "set it in the firmware"
    return setting.note or "no program can set it on a running machine"


def _apply_options(target: Target, findings: Sequence[Finding]) -> list[SettingChange]:
    ceph = target.ceph
    if ceph is None:
        return [
            SettingChange(finding.where, finding.setting, SettingOutcome.MISSING, finding.why)
            for finding in findings
            if finding.setting.scope is Scope.CLUSTER
        ]
    mine = [finding for finding in findings if finding.where == ceph.where]
    drifted = [finding.setting for finding in mine if finding.state is State.DRIFT]
    refused = ceph.apply(drifted)
    after = {finding.setting: finding for finding in ceph.judge([finding.setting for finding in mine])}
    return [
        _change(
            finding,
            after[finding.setting],
            refused=refused.get((finding.setting.section, finding.setting.key), ""),
            waits=finding.state is State.DRIFT and ceph.waits(finding.setting),
        )
        for finding in mine
    ]


# Putting back


@dataclass(frozen=True)
class _Begun:
    """A target that `apply_to` began to change. before: what this call found; old: the record of an earlier call."""

    target: Target
    before: Sequence[Before]
    old: TuningRecord | None


def _put_back(begun: Sequence[_Begun], tuning: str, error: BaseException) -> None:
    """Undo what was begun, the last first, and go on after errors. Says on the error what came of it."""
    restored: list[str] = []
    left: list[str] = []
    for each in reversed(begun):
        done, errors = _restore_all(each.target, each.before)
        restored += done
        left += errors
        if errors:
            continue
        if each.old is None:
            each.target.records.forget(tuning)
        else:
            each.target.records.write(each.old)
    if restored:
        error.add_note(f"what {tuning} had set was put back in {how_many(len(restored), 'place')}")
    if left:
        error.add_note("\n".join((f"what {tuning} had set could not be put back; revert it later:", *left)))


def _restore_all(target: Target, earlier: Sequence[Before]) -> tuple[list[str], list[str]]:
    """Restore every place, also after an error; returns the restored places and the errors."""
    done: list[str] = []
    clean_up = CleanUp()
    for before in earlier:
        with clean_up.step(before.where):
            clean_up.errors += _restore(target, before, done)
    return done, clean_up.errors


def _restore(target: Target, before: Before, done: list[str]) -> list[str]:
    if target.ceph is not None and before.where == target.ceph.where:
        errors = target.ceph.restore(before.options)
        done += [f"{before.where}: {section}/{key}" for section, key in before.options if (section, key) not in errors]
        return list(errors.values())
    site = next((site for site in target.sites if site.machine.where == before.where), None)
    if site is None or not site.up:
        return [f"{before.where} {'is down; start it first' if site else 'no longer exists'}"] if before.knobs() else []
    return _restore_files(site.machine, before.files, done) + _restore_swap(site.machine, before.swaps, done)


def _restore_files(machine: Machine, files: Mapping[str, bytes | None], done: list[str]) -> list[str]:
    now = machine.read(list(files))
    wrong = {path: content for path, content in files.items() if now[path].get(path) != content}
    refused = machine.write([Write(path, _as_written(path, content), create=True) for path, content in wrong.items()])
    after = machine.read(list(wrong))
    errors = []
    for path, content in wrong.items():
        if after[path].get(path) == content:
            done.append(f"{machine.where}: {path}")
        else:
            errors.append(f"{machine.where}: {path}: {refused.get(path, 'its old content could not be written back')}")
    return errors


def _as_written(path: str, content: bytes | None) -> bytes | None:
    """What to write so that the file reads as before; for a file that lists choices, the chosen word."""
    if content is not None and path.startswith("/sys/") and b"[" in content:
        return f"{current(content)}\n".encode()
    return content


def _restore_swap(machine: Machine, swaps: Sequence[str] | None, done: list[str]) -> list[str]:
    if swaps is None:
        return []
    errors = machine.swap(list(swaps))
    content = machine.read(["/proc/swaps"])["/proc/swaps"]["/proc/swaps"]
    now = _areas(content.decode().splitlines()) if isinstance(content, bytes) else [content]
    if now != _areas(swaps):
        return [*(f"{machine.where}: {error}" for error in errors), f"{machine.where}: swap is {now}"]
    done.append(f"{machine.where}: swap")
    return []


def _areas(lines: Sequence[str]) -> list[str]:
    """Lines of /proc/swaps without the column of used space, which changes by itself."""
    return [" ".join([*words[:3], *words[4:]]) for words in map(str.split, lines[1:])]
