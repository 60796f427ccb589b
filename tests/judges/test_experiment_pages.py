"""The pages of experiments: created, tried, measured, stopped and promoted with forms."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Membership, Role, Run
from arena.services.checks import add_check
from judges.models import Baseline, Experiment
from judges.services.experiments import MeasurementPlan, advance, start_experiment, stop_experiment
from tests.factories import make_candidate
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import LOCAL, browser_of
from tests.judges.test_experiments import (  # noqa: F401 (a fixture)
    WRITER,
    answers,
    begin,
    carry_out,
    go_on,
    make_calls,
    origin,
)
from tests.ranking.helpers import words

pytestmark = pytest.mark.django_db
RUN = {"size": "40", "models": LOCAL, "rubric": "pairwise"}


def browser(team: Any, role: str = Role.MEMBER) -> Client:
    person = get_user_model().objects.create_user(f"{role}-of-{team.slug}")
    Membership.objects.create(team=team, user=person, role=role)
    return browser_of(person)


@pytest.fixture
def member(team: Any) -> Client:
    return browser(team)


def page_of(client: Client, experiment: Experiment, **query: Any) -> str:
    answer = client.get(experiment.get_absolute_url(), query)
    assert answer.status_code == 200
    return words(answer.content.decode())


def send(client: Client, to: str, experiment: Experiment, *path: Any, **body: Any) -> Any:
    return client.post(reverse(to, args=[experiment.arena.slug, *path]), body)


def new(client: Client, origin: Arena, *texts: str, **body: Any) -> Any:  # noqa: F811
    baseline = origin.candidates.get(name="concise")
    sent = {
        "baseline": baseline.pk,
        "variants": len(texts),
        "scope": "all",
        "model": f"local:{WRITER}",
        "more_parameters": "{}",
        "do": "create",
    }
    sent |= {f"variant-{n}-system_prompt": text for n, text in enumerate(texts)}
    return client.post(reverse("new_experiment", args=[origin.slug]), sent | body)


@pytest.fixture
def priced(origin: Arena) -> Arena:  # noqa: F811
    """The arena, whose models have prices that are listed."""
    from arena.calls.models import Price

    for model in (WRITER, LOCAL.removeprefix("local:")):
        Price.objects.create(
            endpoint="local", model=model, input_per_million=10**9, output_per_million=10**9
        )
    origin.team.budget = 10**12
    origin.team.save()
    return origin


def test_a_draft_begins_as_the_baseline(member: Client, priced: Arena) -> None:
    other = make_candidate(priced, "formal", endpoint="local", model=WRITER, system_prompt="Sir")
    path = reverse("new_experiment", args=[priced.slug])

    assert ">plain</textarea>" in "".join(member.get(path).content.decode().split("\n"))
    shown = member.get(path, {"baseline": other.pk}).content.decode()
    assert "better than formal" in words(shown)
    assert "Sir</textarea>" in shown


def test_a_form_creates_an_experiment(member: Client, priced: Arena) -> None:
    made = new(member, priced, "plain and GOOD")

    experiment = Experiment.objects.get()
    assert made.status_code == 302
    assert made["Location"].startswith(experiment.get_absolute_url())
    assert str(experiment) == "And GOOD"
    (draft,) = experiment.drafts
    assert (draft.name, draft.system_prompt, draft.model) == ("Draft", "plain and GOOD", WRITER)
    shown = page_of(member, experiment)
    assert "Draft against concise on 40 prompts" in shown
    assert "+9" in shown
    assert "6 answers, about $" in shown
    assert "Not measured yet" in shown


def test_drafts_are_added_and_removed_before_anything_is_created(
    member: Client, priced: Arena
) -> None:
    added = new(member, priced, "plain and GOOD", do="add").content.decode()
    assert "Draft 2" in added
    assert not Experiment.objects.exists()
    assert new(member, priced, "a", "b", "c", "d", "e").status_code == 200

    new(member, priced, "plain and GOOD", "plain and short")
    assert [draft.name for draft in Experiment.objects.get().drafts] == ["Draft 1", "Draft 2"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"variant-0-system_prompt": "plain"}, "This is the same as concise"),
        ({"scope": "chosen"}, "Choose at least 5 prompts"),
        ({"model": "local:unknown"}, "This model is not in the list"),
        ({"temperature": "9"}, "Temperature : It "),
        ({"title": "x" * 101}, "at most 100 characters"),
    ],
)
def test_a_refused_form_says_why(
    member: Client, priced: Arena, body: dict[str, Any], message: str
) -> None:
    answer = new(member, priced, "GOOD", **body)

    assert answer.status_code == 200
    assert message in words(answer.content.decode())
    assert not Experiment.objects.exists()


def test_only_the_chosen_prompts_are_asked(member: Client, priced: Arena) -> None:
    chosen = list(priced.prompts.order_by("pk").values_list("pk", flat=True)[:6])
    new(member, priced, "GOOD", scope="chosen", chosen=chosen)

    assert Experiment.objects.get().arena.prompts.count() == 6


def test_drafts_are_tried_and_read_side_by_side(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    send(member, "try_drafts", experiment)
    assert "Generating 6 answers" in page_of(member, experiment)
    assert 'hx-trigger="every 2s"' in member.get(experiment.get_absolute_url()).content.decode()

    make_calls(experiment)
    second = experiment.arena.prompts.order_by("pk")[13]
    shown = page_of(member, experiment, prompt=second.pk)
    assert "6 answers for $" in shown
    assert f"GOOD: {second.text}" in shown
    assert f"plain: {second.text}" in shown
    assert "words" in shown


def test_other_prompts_are_tried(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    prompts = list(experiment.arena.prompts.order_by("pk").values_list("pk", flat=True)[:4])

    send(member, "try_drafts", experiment, prompts=prompts[:2])
    make_calls(experiment)
    (draft,) = experiment.drafts
    assert set(draft.responses.values_list("prompt", flat=True)) == set(prompts[:2])

    refused = member.post(
        reverse("try_drafts", args=[experiment.arena.slug]), {"prompts": prompts}, follow=True
    )
    assert "Choose 1 to 3 prompts." in words(refused.content.decode())


def test_an_answer_that_fails_says_why(member: Client, priced: Arena, local: FakeServer) -> None:
    def refuses(body: dict[str, Any]) -> Any:
        sent = answers(body)
        if body["messages"][0]["content"] == "broken":
            sent.status, sent.body = 400, {"error": {"message": "unknown parameter"}}
        return sent

    local.otherwise = refuses
    experiment = begin(priced, "broken")
    send(member, "try_drafts", experiment)
    make_calls(experiment)

    shown = page_of(member, experiment)
    assert "unknown parameter" in shown
    assert "3 answers could not be generated." in shown
    assert "Try again" in shown


def test_a_draft_is_edited_and_another_added_and_removed(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    (draft,) = experiment.drafts
    fields = {"system_prompt": "GOOD!", "endpoint": "local", "model": WRITER}
    body = {f"draft-{draft.pk}-{name}": value for name, value in fields.items()}
    send(member, "save_draft", experiment, draft.pk, do="save", **body)
    assert experiment.drafts.get().system_prompt == "GOOD!"

    send(member, "add_draft", experiment)
    second = experiment.drafts.last()
    assert "No change yet." in page_of(member, experiment)
    refused = send(member, "start_experiment", experiment, **RUN)
    assert "Draft 1 is the same as the baseline, so there is nothing to compare" in words(
        refused.content.decode()
    )

    send(member, "save_draft", experiment, second.pk, do="remove")
    assert list(experiment.drafts) == [experiment.drafts.get()]


def test_a_refused_edit_stays_in_its_form(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    (draft,) = experiment.drafts
    body = {"system_prompt": "{{ nothing }}", "endpoint": "local", "model": "", "user_template": ""}
    answer = send(
        member,
        "save_draft",
        experiment,
        draft.pk,
        **{f"draft-{draft.pk}-{name}": value for name, value in body.items()},
    )

    assert answer.status_code == 200
    assert "Nothing was saved." in words(answer.content.decode())
    assert experiment.drafts.get().system_prompt == "GOOD"


def test_the_prices_follow_the_judges_chosen(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    with_judge = page_of(member, experiment)
    assert "All 40 prompts" in with_judge
    assert "finds a difference of 72:28 in 4 of 5 cases" in with_judge

    quoted = send(
        member, "start_experiment", experiment, size="20", do="price", ask_people="on", people=10
    )
    shown = words(quoted.content.decode())
    assert quoted.status_code == 200
    assert "72:28" not in shown
    assert not Run.objects.exists()
    experiment.refresh_from_db()
    assert experiment.state == "draft"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"models": []}, "Choose judges, people or both."),
        ({"ask_people": "on", "people": ""}, "Enter how many votes"),
        ({"cap": "-1"}, "greater than or equal to 0"),
        ({"size": "41"}, "not one of the available choices"),
        ({"cap": "5000"}, "left of its budget"),
    ],
)
def test_a_refused_plan_starts_nothing(
    member: Client, priced: Arena, body: dict[str, Any], message: str
) -> None:
    experiment = begin(priced, "GOOD")
    answer = send(member, "start_experiment", experiment, **(RUN | body))

    assert message in words(answer.content.decode())
    experiment.refresh_from_db()
    assert experiment.state == "draft"


def test_a_measurement_is_watched_to_its_verdict(
    member: Client, priced: Arena, settings: Any
) -> None:
    settings.EXPERIMENT_DAYS = 7
    experiment = begin(priced, "GOOD")
    assert send(member, "start_experiment", experiment, **RUN).status_code == 302
    experiment.refresh_from_db()
    shown = page_of(member, experiment)
    assert "0 of 40 prompts" in shown
    assert "first look after 8 prompts" in shown
    assert "nobody opens or changes for 7 days is deleted" in shown
    assert "Stop" in shown

    done = go_on(experiment)
    polled = member.get(experiment.get_absolute_url(), {"seen": "running"})
    assert polled["HX-Refresh"] == "true"
    shown = page_of(member, done)
    assert "draft 0 is better than concise" in shown
    assert "were not needed and cost nothing" in shown
    assert "0 worse" in shown
    assert "This run could find a difference of 72:28" in shown
    assert "everyone can read these texts" in shown


def test_a_draft_is_promoted_with_a_reason(member: Client, priced: Arena) -> None:
    experiment = carry_out(begin(priced, "GOOD"))
    (draft,) = experiment.drafts
    refused = send(member, "promote_draft", experiment, draft.pk, why="")
    assert "This field is required." in words(refused.content.decode())

    send(member, "promote_draft", experiment, draft.pk, why="It greets people.")
    shown = page_of(member, experiment)
    assert "Promoted as concise v2" in shown
    assert "by member-of-" in shown
    assert "“It greets people.”" in shown
    assert Baseline.objects.get(arena=priced).candidate.own_name == "concise v2"
    decision = member.get(reverse("decision", args=[priced.team.slug, priced.slug]))
    assert "concise v2 was promoted after the experiment draft 0" in words(
        decision.content.decode()
    )
    send(member, "promote_draft", experiment, draft.pk, why="Again.")
    assert "A draft of this experiment has been promoted." in page_of(member, experiment)


def test_a_draft_is_entered_under_a_name(member: Client, priced: Arena) -> None:
    experiment = carry_out(begin(priced, "GOOD"))
    (draft,) = experiment.drafts
    refused = send(member, "enter_draft", experiment, draft.pk, name="concise")
    assert refused.status_code == 200
    assert "Nothing was entered." in words(refused.content.decode())

    entered = send(member, "enter_draft", experiment, draft.pk, name="greets")
    candidate = priced.candidates.get(name="greets")
    assert entered["Location"] == reverse("manage_candidate", args=[priced.slug, candidate.pk])


def test_a_worse_draft_cannot_be_promoted_from_the_page(member: Client, priced: Arena) -> None:
    baseline = priced.candidates.get()
    baseline.system_prompt = "GOOD"
    baseline.save()
    experiment = carry_out(begin(priced, "bad"))

    shown = page_of(member, experiment)
    assert "Worse" in shown
    assert "Where the draft lost" in shown
    assert "more" in shown
    assert "Only a draft that is better, or no worse, and passes its checks can be pro" in shown
    (draft,) = experiment.drafts
    send(member, "promote_draft", experiment, draft.pk, why="I like it.")
    assert "Only a measured draft that is better" in page_of(member, experiment)
    assert not Baseline.objects.filter(arena=priced).exists()


def test_a_stopped_experiment_says_why_and_goes_on(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    start_experiment(
        experiment=experiment, plan=MeasurementPlan([LOCAL]), by=CLI, now=timezone.now()
    )
    send(member, "stop_experiment", experiment)
    shown = page_of(member, experiment)
    assert "The team stopped it. What is known so far stays." in shown
    assert "Go on" in shown

    refused = send(member, "start_experiment", experiment, cap="-1")
    assert "It was not resumed." in words(refused.content.decode())
    send(member, "start_experiment", experiment, cap="")
    assert go_on(Experiment.objects.get()).state == "done"


def test_several_drafts_have_a_verdict_each_and_the_dock_names_the_best(
    member: Client, priced: Arena
) -> None:
    experiment = carry_out(begin(priced, "plain and long", "GOOD"))

    answer = member.get(experiment.get_absolute_url())
    dock = words(answer.content.decode().partition('id="dock"')[2])
    assert answer.context["best"].candidate.name == "draft 1"
    assert "draft 1: Better" in dock
    assert "draft 0:" in words(answer.content.decode())


def test_the_baseline_is_compared_with_itself(member: Client, priced: Arena) -> None:
    experiment = carry_out(begin(priced, "GOOD"))
    assert "Compare the baseline with itself" in page_of(member, experiment)
    assert send(member, "start_twin", experiment, cap="much").status_code == 302
    assert Experiment.objects.count() == 1

    started = send(member, "start_twin", experiment, cap="")
    twin = Experiment.objects.get(twin=True)
    assert started["Location"] == twin.get_absolute_url()
    go_on(twin)
    assert "won or lost 0 of 24 prompts" in page_of(member, experiment)
    assert "a second generation of itself" in page_of(member, twin)


def test_the_list_says_state_verdict_and_price(member: Client, priced: Arena) -> None:
    path = reverse("experiments", args=[priced.slug])
    assert "New experiment" in words(member.get(path).content.decode())
    done, draft = carry_out(begin(priced, "GOOD", name="first")), begin(priced, "x", name="second")

    shown = words(member.get(path).content.decode())
    assert "first" in shown
    assert "second" in shown
    assert "Better" in shown
    assert "Draft" in shown
    assert done.get_absolute_url() in member.get(path).content.decode()
    assert draft.get_absolute_url() in member.get(path).content.decode()


def test_an_experiment_is_deleted_but_not_while_it_runs(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    deleted = send(member, "delete_experiment", experiment)

    assert deleted["Location"] == reverse("experiments", args=[priced.slug])
    assert not Experiment.objects.exists()


def test_viewers_read_and_outsiders_find_nothing(team: Any, priced: Arena) -> None:
    experiment = carry_out(begin(priced, "GOOD"))
    (draft,) = experiment.drafts
    viewer, stranger = (
        browser(team, Role.VIEWER),
        browser_of(get_user_model().objects.create_user("stranger")),
    )

    shown = page_of(viewer, experiment)
    assert "is better than concise" in shown
    assert "Why do you promote it?" not in shown
    assert "Delete this experiment" not in shown
    assert send(viewer, "promote_draft", experiment, draft.pk, why="x").status_code == 403
    for client in (stranger, Client()):
        assert client.get(experiment.get_absolute_url()).status_code == 404
        assert send(client, "promote_draft", experiment, draft.pk, why="x").status_code == 404


def test_a_viewer_of_a_draft_sees_no_form(team: Any, priced: Arena) -> None:
    viewer, experiment = browser(team, Role.VIEWER), begin(priced, "GOOD")
    shown = page_of(viewer, experiment)

    assert "Members and owners of the team can start" in shown
    assert send(viewer, "start_experiment", experiment, **RUN).status_code == 403


def test_other_pages_lead_to_experiments(member: Client, priced: Arena) -> None:
    candidate = priced.candidates.get()
    path, new_path = (
        reverse(name, args=[priced.slug]) for name in ("experiments", "new_experiment")
    )

    for name, args in (("manage_arena", [priced.slug]), ("team", [priced.team.slug])):
        assert path in member.get(reverse(name, args=args)).content.decode(), name
    shown = member.get(reverse("manage_candidate", args=[priced.slug, candidate.pk]))
    assert f"{new_path}?baseline={candidate.pk}" in shown.content.decode()
    assert new_path in member.get(reverse("compare_prompts")).content.decode()


def test_pages_of_its_own_arena_lead_back(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    slug = experiment.arena.slug

    for name in ("board", "experiments", "new_experiment"):
        answer = member.get(reverse(name, args=[slug]))
        assert answer["Location"] == experiment.get_absolute_url(), name
    assert Client().get(reverse("board", args=[slug])).status_code == 404
    for name in ("manage_arena", "judge_runs", "vote"):
        page = member.get(reverse(name, args=[slug])).content.decode()
        assert reverse("board", args=[slug]) in page, name


def test_looking_keeps_it_and_polling_does_not(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    before = timezone.now() - timezone.timedelta(days=5)
    Experiment.objects.update(used_at=before)

    member.get(experiment.get_absolute_url(), headers={"HX-Request": "true"})
    assert Experiment.objects.get().used_at == before
    member.get(experiment.get_absolute_url())
    assert Experiment.objects.get().used_at > before


def test_people_are_asked_by_a_link(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    send(member, "start_experiment", experiment, **(RUN | {"ask_people": "on", "people": "10"}))
    experiment.refresh_from_db()

    assert experiment.people == 10
    shown = member.get(experiment.get_absolute_url()).content.decode()
    assert f"/a/{experiment.arena.slug}/raters/" in shown or "people-link" in shown
    assert "People: 0 of 10 votes" in words(shown)


def test_an_experiment_that_judges_cannot_decide_is_said_to_have_ended(
    member: Client, priced: Arena
) -> None:
    experiment = carry_out(begin(priced, "plain", twin=True))

    shown = page_of(member, experiment)
    assert "Can’t be decided this way" in shown
    assert "24 of the answers are equal word for word and were not sent." in shown


def test_stopping_what_does_not_run_is_refused(member: Client, priced: Arena) -> None:
    experiment = begin(priced, "GOOD")
    answer = member.post(reverse("stop_experiment", args=[experiment.arena.slug]), follow=True)
    assert "Only a running experiment can be stopped." in words(answer.content.decode())
    with pytest.raises(Exception, match="Only a running"):
        stop_experiment(experiment=experiment, by=CLI, now=timezone.now())


def test_prompts_without_answers_are_not_measured_while_answers_are_generated(
    member: Client, priced: Arena
) -> None:
    experiment = begin(priced, "GOOD")
    send(member, "try_drafts", experiment)
    make_calls(experiment)
    send(member, "start_experiment", experiment, **RUN)
    advance(experiment_id=experiment.pk, now=timezone.now())

    assert "0 of 40 prompts" in page_of(member, experiment)
    send(member, "stop_experiment", experiment)
    assert "Stopped 0 of 40 prompts" in page_of(member, experiment)
    send(member, "start_experiment", experiment, cap="")
    assert go_on(Experiment.objects.get()).state == "done"


def test_the_difference_adds_no_space_to_a_draft(member: Client, priced: Arena) -> None:
    page = member.get(begin(priced, "plain\n  and GOOD").get_absolute_url()).content.decode()

    assert '<pre class="experiment-text">plain<ins>\n  and GOOD</ins>' in page


def test_checks_stand_beside_the_baselines_and_stop_a_promotion(
    member: Client,
    origin: Arena,  # noqa: F811
) -> None:
    add_check(arena=origin, by=CLI, kind="contains", expected="plain", name="Stays plain")
    add_check(arena=origin, by=CLI, kind="guard", prompt=origin.prompts.order_by("pk")[0])
    experiment = carry_out(begin(origin, "GOOD"))

    page = page_of(member, experiment)

    assert "Stays plain failed 40 0 40 broken" in page
    assert "Never lose “Question 0?” kept" in page
    assert "Stays plain: 40 broken" in page
    assert "Promote it" not in page
