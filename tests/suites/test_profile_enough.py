"""What would be enough, as a requirement's scenario asks for it: which machines are judged, and by which figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from cephlab.suites.profile import wanted as wanting
from cephlab.suites.profile.wanted import (
    RATIO,
    Known,
    Wanted,
    _times,
    enough_for,
    enough_measured,
)
from cephlab.tuning.enough import Enough, Judge, kinds_for
from cephlab.tuning.held import Answer
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import Requirement
from tests.suites.test_profile_wanted import ANY, KNOWN, MEAN, NODES, OPS, P99, PLAIN
from tests.tuning.test_answers_of_data import cluster


def asked(monkeypatch: pytest.MonkeyPatch, requirement: Requirement) -> list[Judge]:
    """The judges that are given to the search for what is enough."""
    judges: list[Judge] = []

    def enough(on: Profile, judge: Judge, kinds: Sequence[str]) -> Iterator[Enough]:
        assert (on, tuple(kinds)) == (cluster(4), kinds_for(requirement))
        judges.append(judge)
        yield NODES

    monkeypatch.setattr(wanting, "enough", enough)
    return judges


def held_by_count(monkeypatch: pytest.MonkeyPatch, by_count: Mapping[int, tuple[Answer, ...]]) -> None:
    """Answers by the number of a profile's nodes."""

    def held_on(_wanted: Wanted, on: Profile, known: Known) -> tuple[Answer, ...]:
        assert known is KNOWN
        return by_count[on.node_count]

    monkeypatch.setattr(Wanted, "held_on", held_on)


def test_a_change_is_judged_by_all_limits_and_limited_by_the_first_that_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judges = asked(monkeypatch, PLAIN)
    kept, none = replace(OPS, least=10.0), replace(OPS, metric="other", limited_by="cores")
    held_by_count(monkeypatch, {5: (kept, MEAN), 6: (kept, none, replace(none, limited_by="last")), 7: (none, kept)})
    assert enough_for(ANY, KNOWN) == [NODES]
    [judge] = judges
    assert judge(cluster(5)) == (True, "disks")
    assert judge(cluster(6)) == (False, "cores")
    assert judge(cluster(7)) == (False, "cores")


def measured(answer: Answer, value: float) -> Answer:
    """As seen, within a tenth."""
    return replace(answer, value=value, low=0.9 * value, high=1.1 * value, limited_by="seen")


def test_what_was_measured_grows_as_the_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of 60 where 100 was predicted: with twice the prediction, twice of it."""
    judges = asked(monkeypatch, PLAIN)
    answers = (OPS, MEAN, P99)
    seen = {OPS.metric: measured(OPS, 60.0), P99.metric: measured(P99, 0.1)}
    held_by_count(
        monkeypatch,
        {
            8: (replace(OPS, value=200.0, limited_by="new"), replace(MEAN, value=9.0), replace(P99, value=9.0)),
            5: (replace(OPS, value=125.0, limited_by="new"), MEAN, P99),
        },
    )
    assert enough_measured(ANY, KNOWN, answers, seen) == ([NODES], [RATIO])
    [judge] = judges
    assert judge(cluster(8)) == (True, "new")
    assert judge(cluster(5)) == (False, "new")


def test_a_wait_that_was_measured_shrinks_as_the_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    judges = asked(monkeypatch, PLAIN)
    short = replace(MEAN, most=0.1)
    held_by_count(monkeypatch, {8: (replace(short, value=0.05),), 5: (replace(short, value=0.09),)})
    changes = enough_measured(ANY, KNOWN, (short,), {short.metric: measured(short, 0.15)})
    assert changes == ([NODES], [RATIO])
    assert (judges[0](cluster(8))[0], judges[0](cluster(5))[0]) == (True, False)


def test_all_of_an_answer_is_scaled() -> None:
    assert _times(OPS, 4.0) == replace(OPS, value=400.0, low=200.0, high=800.0)


def test_what_is_kept_or_can_grow_by_nothing_needs_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, PLAIN)
    assert enough_measured(ANY, KNOWN, (OPS, MEAN), {OPS.metric: measured(OPS, 190.0)}) == ([], [])
    monkeypatch.setattr(wanting, "kinds_for", lambda _: ())
    assert enough_measured(ANY, KNOWN, (OPS,), {OPS.metric: measured(OPS, 60.0)}) == ([], [])


@pytest.mark.parametrize(("value", "fits"), [(50.0, True), (49.9, False), (81.0, True)])
def test_only_machines_that_the_model_fits_are_changed(
    monkeypatch: pytest.MonkeyPatch, value: float, fits: bool
) -> None:
    """A measured rate may be at either end of what was predicted, here of 50 to 81."""
    asked(monkeypatch, PLAIN)
    answer, seen = replace(OPS, high=81.0), measured(OPS, value)
    off = f"throughput is predicted as {answer.predicted} but was measured as {seen.predicted}"
    said = f"What would be enough is not known, as the model does not fit these machines: {off}."
    assert enough_measured(ANY, KNOWN, (answer,), {OPS.metric: seen}) == (([NODES], [RATIO]) if fits else ([], [said]))


@pytest.mark.parametrize(
    ("low", "high", "known"), [(0.0, 66.0, False), (54.0, math.inf, False), (-1.0, 66.0, False), (0.1, 66.0, True)]
)
def test_of_a_figure_with_one_end_the_model_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, low: float, high: float, known: bool
) -> None:
    """A rate from memory may be as low as nothing, and with busy clients a wait as short as nothing."""
    asked(monkeypatch, PLAIN)
    said = "What would be enough is not known, as only one end of what was measured is known."
    seen = {OPS.metric: replace(measured(OPS, 60.0), low=low, high=high)}
    assert enough_measured(ANY, KNOWN, (OPS,), seen) == (([NODES], [RATIO]) if known else ([], [said]))


def test_of_a_percentile_the_model_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, PLAIN)
    said = f"What would be enough is not known for {P99.metric}: the model has means only."
    assert enough_measured(ANY, KNOWN, (OPS, P99), {P99.metric: measured(P99, 0.5)}) == ([], [said])
