"""Which votes are taken as dependent."""

import numpy as np
import pytest

from ranking.stats.connectivity import choose_clusters

LEFT = np.tile([0, 1, 0], 40)
RIGHT = np.tile([1, 0, 2], 40)


def groups(codes):
    return len(np.unique(codes))


def test_by_prompt_from_forty_on():
    found = choose_clusters(LEFT, RIGHT, prompt=np.repeat(np.arange(40), 3))
    assert found.rule == "prompt"
    assert groups(found.codes) == 40
    assert not found.these_prompts_only
    assert not found.note


def test_with_fewer_prompts_by_prompt_and_pair_and_the_board_says_so():
    found = choose_clusters(LEFT, RIGHT, prompt=np.arange(120) % 39)
    assert found.rule == "prompt_pair"
    assert found.these_prompts_only
    assert "these prompts only" in found.note


def test_a_pair_is_the_same_from_both_sides():
    found = choose_clusters(LEFT[:6], RIGHT[:6], prompt=[0, 0, 0, 1, 1, 1])
    assert found.codes.tolist() == [0, 0, 1, 2, 2, 3]


def test_without_prompts_by_rater_from_forty_on():
    found = choose_clusters(LEFT, RIGHT, rater=np.repeat(np.arange(40), 3))
    assert (found.rule, groups(found.codes)) == ("rater", 40)
    assert found.note


def test_without_prompts_and_raters_by_vote():
    found = choose_clusters(LEFT, RIGHT, rater=np.arange(120) % 39)
    assert (found.rule, found.codes) == ("vote", None)
    assert found.note


def test_one_unknown_prompt_makes_the_prompts_unknown():
    prompt = np.repeat(np.arange(40), 3)
    prompt[7] = -1
    assert choose_clusters(LEFT, RIGHT, prompt=prompt).rule == "vote"


def test_votes_on_known_prompts_share_them_and_the_others_their_rater():
    prompt, rater = np.repeat(np.arange(40), 3), np.arange(120) % 5
    prompt[[7, 12, 20]] = -1  # of the raters 2, 2 and 0
    found = choose_clusters(LEFT, RIGHT, prompt=prompt, rater=rater)
    assert found.rule == "rater"
    assert found.codes[7] == found.codes[12] != found.codes[20]
    assert found.codes[0] == found.codes[1] == found.codes[2]
    assert groups(found.codes) == 42


def test_a_vote_of_nobody_and_on_nothing_known_makes_all_votes_independent():
    prompt, rater = np.repeat(np.arange(40), 3), np.arange(120)
    prompt[7] = rater[7] = -1
    assert choose_clusters(LEFT, RIGHT, prompt=prompt, rater=rater).rule == "vote"


def test_votes_from_one_list_share_a_cluster():
    found = choose_clusters([0, 0, 1, 0], [1, 2, 2, 1], prompt=[0, 0, 0, 9], batch=[5, 5, 5, -1])
    assert found.rule == "prompt_pair"
    assert groups(found.codes[:3]) == 1
    assert found.codes[3] != found.codes[0]


def test_votes_from_one_list_share_a_cluster_by_vote_too():
    found = choose_clusters([0, 0, 1, 0], [1, 2, 2, 1], batch=[-1, 8, 8, -1])
    assert found.rule == "vote"
    assert groups(found.codes) == 3
    assert found.codes[1] == found.codes[2]


def test_no_votes_are_no_error():
    assert choose_clusters([], [], prompt=[], rater=[], batch=[]).rule == "vote"


@pytest.mark.parametrize("name", ["prompt", "rater", "batch"])
def test_lengths_must_fit(name):
    with pytest.raises(ValueError, match=f"^{name} has 1 entries"):
        choose_clusters([0, 1], [1, 0], **{name: [1]})
