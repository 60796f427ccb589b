"""The tallies of trusted judges follow trust: for all votes at once, through kills and flips."""

from typing import Any

import pytest
from django.utils import timezone

from arena.models import Arena, Import, Rater, Vote
from arena.services.voting import set_arena_trust
from ranking.models import ArenaRefresh, TalliedTrust, Tally, TallyMember
from ranking.services import fold as fold_service
from ranking.services import vote_log
from ranking.services.leases import RefreshLeaseLostError
from ranking.tallies import VoteCounts
from tests.factories import void_vote
from tests.ranking.helpers import (
    cast,
    claim,
    counted,
    drift,
    fold,
    hidden_import,
    publish,
    seconds,
    set_trusted,
)

pytestmark = pytest.mark.django_db


def is_behind(arena: Arena) -> bool:
    """Whether the sweep would enqueue the arena."""
    ArenaRefresh.objects.filter(arena=arena).update(is_stale=False, token=None)
    now = timezone.now() + seconds(60)
    return ArenaRefresh.objects.behind(now).filter(arena=arena).exists()


def test_old_votes_count_from_the_refresh_after_trust_was_given(arena: Arena, judge: Rater) -> None:
    cast(arena, rater=judge)
    fold(arena)
    assert counted(arena, "trusted_judges") == 0
    set_trusted(judge)
    fold(arena)
    assert counted(arena, "trusted_judges") == counted(arena, "judges") == 1
    assert counted(arena, "trusted_judges", "category-0") == 1
    assert drift(arena) == []


def test_new_votes_of_the_trusted_are_added_as_they_come(
    arena: Arena, trusted_judge: Rater, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast(arena, rater=trusted_judge)
    fold(arena)
    monkeypatch.setattr(fold_service, "_recount", None)  # from here on nothing is counted anew
    cast(arena, "right", rater=trusted_judge)
    fold(arena)
    assert counted(arena, "trusted_judges") == 2
    assert drift(arena) == []


def test_a_withdrawn_trust_takes_all_votes_out(arena: Arena, trusted_judge: Rater) -> None:
    cast(arena, rater=trusted_judge)
    fold(arena)
    set_trusted(trusted_judge, False)
    fold(arena)
    tally = Tally.objects.get(arena=arena, raters="trusted_judges", category="")
    assert (counted(arena, "trusted_judges"), tally.n_raters) == (0, 0)
    assert counted(arena, "judges") == 1
    assert drift(arena) == []


def test_trust_as_measured_in_an_arena_takes_precedence(arena: Arena, trusted_judge: Rater) -> None:
    cast(arena, rater=trusted_judge)
    fold(arena)
    own: dict[str, Any] = {"rater_id": trusted_judge.pk, "arena_id": arena.pk}
    assert set_arena_trust(**own, trusted=False, now=timezone.now())
    assert is_behind(arena)
    fold(arena)
    assert (counted(arena, "judges"), counted(arena, "trusted_judges")) == (1, 0)
    assert not is_behind(arena)
    set_trusted(trusted_judge, False)
    for trusted, n_counted in [(True, 1), (None, 0)]:
        set_arena_trust(**own, trusted=trusted, now=timezone.now())
        assert not set_arena_trust(**own, trusted=trusted, now=timezone.now())
        fold(arena)
        assert counted(arena, "trusted_judges") == n_counted
    assert drift(arena) == []


def test_only_the_votes_of_the_trusted_are_counted(arena: Arena, trusted_judge: Rater) -> None:
    other = Rater.objects.create(kind=Rater.Kind.JUDGE, name="A lenient judge")
    for rater in (trusted_judge, other, other):
        cast(arena, rater=rater)
    fold(arena)
    assert (counted(arena, "judges"), counted(arena, "trusted_judges")) == (3, 1)
    members = TallyMember.objects.filter(tally__raters="trusted_judges", rater__isnull=False)
    assert set(members.values_list("rater", flat=True)) == {trusted_judge.pk}


def test_a_jury_is_neither_a_person_nor_a_judge(arena: Arena, jury: Rater) -> None:
    set_trusted(jury)
    cast(arena, rater=jury)
    fold(arena)
    found = {raters: counted(arena, raters) for raters in ("people", "judges", "juries")}
    assert found == {"people": 24, "judges": 0, "juries": 1}
    assert counted(arena, "trusted_juries") == 1
    assert counted(arena, "trusted_judges") == 0
    assert drift(arena) == []


def test_a_voided_vote_of_the_trusted_leaves_both_tallies(
    arena: Arena, trusted_judge: Rater
) -> None:
    vote = cast(arena, rater=trusted_judge)
    cast(arena, rater=trusted_judge)
    fold(arena)
    void_vote(vote)
    fold(arena)
    assert (counted(arena, "judges"), counted(arena, "trusted_judges")) == (1, 1)
    assert drift(arena) == []


def test_vote_voided_before_trust_is_not_taken_out_twice(arena: Arena, judge: Rater) -> None:
    vote = cast(arena, rater=judge)
    cast(arena, rater=judge)
    fold(arena)
    void_vote(vote)
    set_trusted(judge)
    fold(arena)
    assert counted(arena, "trusted_judges") == 1
    assert drift(arena) == []


def test_trust_that_changes_during_a_fold_waits_and_is_found(
    arena: Arena, judge: Rater, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast(arena, rater=judge)
    fold(arena)
    assert not is_behind(arena)
    sync_trust = fold_service.sync_trust

    def follow_then_trust(**named: Any) -> None:
        sync_trust(**named)
        set_trusted(judge)

    monkeypatch.setattr(fold_service, "sync_trust", follow_then_trust)
    fold(arena)
    monkeypatch.undo()
    assert counted(arena, "trusted_judges") == 0
    assert is_behind(arena)  # though no signal was heard
    fold(arena)
    assert counted(arena, "trusted_judges") == 1
    assert not is_behind(arena)
    set_trusted(judge, False)
    assert is_behind(arena)
    fold(arena)
    assert not is_behind(arena)


def test_fold_after_a_flip_follows_what_tallies_count(
    arena: Arena, judge: Rater, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trust is given between two batches: the first was added without, none is counted twice."""
    monkeypatch.setattr(fold_service, "BATCH", 1)
    for _ in range(3):
        cast(arena, rater=judge)
    token, before = claim(arena), fold_service.tallied_trust(arena.pk)
    log = vote_log.open_log(arena_id=arena.pk, token=token)
    for _ in range(26):
        fold_service._add_cast(log, token, before)
    set_trusted(judge)
    fold_service.fold(arena_id=arena.pk, token=token)
    assert counted(arena, "trusted_judges") == 3
    assert drift(arena) == []


def test_a_recount_that_is_killed_has_changed_nothing(
    arena: Arena, judge: Rater, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast(arena, rater=judge)
    fold(arena)
    set_trusted(judge)
    correct_tallies = fold_service.correct_tallies

    def die(**named: Any) -> None:
        correct_tallies(**named)
        raise RefreshLeaseLostError

    monkeypatch.setattr(fold_service, "correct_tallies", die)
    with pytest.raises(RefreshLeaseLostError):
        fold(arena)
    monkeypatch.undo()
    assert not TalliedTrust.objects.exists()
    assert counted(arena, "trusted_judges") == 0
    assert is_behind(arena)
    assert drift(arena) == []
    fold(arena)
    assert counted(arena, "trusted_judges") == 1


def test_drift_of_the_tallies_of_the_trusted_is_found_and_mended(
    arena: Arena, trusted_judge: Rater
) -> None:
    cast(arena, rater=trusted_judge)
    fold(arena)
    Tally.objects.filter(raters="trusted_judges", category="").update(
        cells=VoteCounts.none().pack()
    )
    assert drift(arena) == ["trusted judges, all categories: 0 votes instead of 1"]
    assert drift(arena) == []


def test_trust_that_waits_is_no_drift(arena: Arena, judge: Rater) -> None:
    cast(arena, rater=judge)
    fold(arena)
    set_trusted(judge)
    assert drift(arena) == []
    assert counted(arena, "trusted_judges") == 0


def test_trusted_votes_of_a_hidden_file_wait_for_its_reveal(
    arena: Arena, trusted_judge: Rater
) -> None:
    source = hidden_import(arena, n_votes=3)
    Vote.objects.filter(source=source).update(rater=trusted_judge)
    fold(arena)
    assert counted(arena, "trusted_judges") == 0
    Import.objects.filter(pk=source.pk).update(revealed_at=timezone.now())
    fold(arena)
    assert counted(arena, "trusted_judges") == 3
    assert drift(arena) == []


def test_trust_elsewhere_concerns_nobody_here(arena: Arena, trusted_judge: Rater) -> None:
    publish(arena)
    assert not TalliedTrust.objects.exists()
    assert not is_behind(arena)
