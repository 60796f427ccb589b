"""The pages of teams: who sees which, what they say, and how people join."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.models import ApiToken, AuditEntry, Invitation, Membership, Notice, Role, Team
from arena.services import invitations, tokens
from arena.services.audit import record
from tests.arena.teams import everybody, signed_in
from tests.described import undescribed
from tests.factories import make_arena, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
READERS = {"viewer", "member", "owner", "operator"}
MANAGERS = {"owner", "operator"}


def invite(team, role="member"):
    owner = team.memberships.filter(role="owner").earliest("pk").user
    return invitations.create_invitation(
        team=team, role=role, note="", by=Actor(user=owner), now=timezone.now()
    )


def make_token(team):
    return tokens.create_token(team=team, name="CI", scopes=["read"], by=Actor(user=make_user()))


@pytest.mark.parametrize(
    ("page", "allowed"),
    [
        ("team", READERS),
        ("team_members", READERS),
        ("team_audit", READERS),
        ("team_notices", READERS),
        ("team_tokens", MANAGERS),
    ],
)
def test_team_pages_open_only_for_the_roles_they_are_for(page, allowed):
    team = make_team()
    for who, client in everybody(team).items():
        status = client.get(reverse(page, args=[team.slug])).status_code
        if who == "nobody":
            assert status == 302, page
        elif who == "stranger":
            assert status == 404, page
        else:
            assert status == (200 if who in allowed else 403), (page, who)


def test_what_changes_a_team_is_for_its_owners():
    team = make_team()
    member, (invitation, _) = make_member(team), invite(team)
    token, _ = make_token(team)
    posts = {
        reverse("rename_team", args=[team.slug]): {"name": "Other"},
        reverse("team_members", args=[team.slug]): {"role": "owner"},
        reverse("change_role", args=[team.slug, member.pk]): {"role": "owner"},
        reverse("remove_member", args=[team.slug, member.pk]): {},
        reverse("revoke_invitation", args=[team.slug, invitation.pk]): {},
        reverse("team_tokens", args=[team.slug]): {"name": "x", "scopes": "read"},
        reverse("revoke_token", args=[team.slug, token.pk]): {},
    }
    readers = everybody(team)
    before = AuditEntry.objects.count()
    for url, data in posts.items():
        for who, expected in {"nobody": 302, "stranger": 404, "viewer": 403, "member": 403}.items():
            assert readers[who].post(url, data).status_code == expected, (url, who)
    assert AuditEntry.objects.count() == before
    for url, data in posts.items():
        assert readers["owner"].post(url, data).status_code in (200, 302), url
    assert AuditEntry.objects.count() == before + len(posts)


def test_a_refusal_is_one_log_line_and_a_fault_has_a_traceback(caplog, monkeypatch):
    team = make_team()
    client, url = signed_in(make_member(team).user), reverse("rename_team", args=[team.slug])
    assert client.get(url).status_code == 403
    [refused] = caplog.records
    assert (refused.getMessage(), refused.exc_info) == (
        f"Forbidden (Permission denied): {url}",
        None,
    )
    client.raise_request_exception = False
    monkeypatch.setattr("arena.views.notices.paginate", lambda *args: 1 / 0)
    assert client.get(reverse("team_notices", args=[team.slug])).status_code == 500
    assert caplog.records[-1].exc_info


def test_rows_of_another_team_are_not_found():
    mine, other = make_team(), make_team()
    client = signed_in(mine.memberships.get().user)
    member, (invitation, _), (token, _) = make_member(other), invite(other), make_token(other)
    for name, pk in [
        ("change_role", member.pk),
        ("remove_member", member.pk),
        ("revoke_invitation", invitation.pk),
        ("revoke_token", token.pk),
    ]:
        answer = client.post(reverse(name, args=[mine.slug, pk]), {"role": "viewer"})
        assert answer.status_code == 404, name
    token.refresh_from_db()
    assert token.revoked_at is None


def test_another_team_and_a_missing_one_look_alike(django_assert_num_queries):
    other, client = make_team(name="Secret plans"), signed_in(make_user())
    pages = []
    for slug in (other.slug, "nothing-here"):
        with django_assert_num_queries(3):  # the session, its person, the team
            pages.append(client.get(reverse("team", args=[slug])))
    assert {page.status_code for page in pages} == {404}
    known, missing = (re.sub(r'value="\w{64}"', "", page.text) for page in pages)  # CSRF tokens
    assert known == missing


def test_from_signing_up_to_a_second_person_in_the_team():
    ada, bob = Client(), Client()
    account = {"password1": "correct horse battery"}
    ada.post("/sign-up/?next=/teams/", account | {"email": "ada@example.org"})
    assert "You are not in a team yet" in ada.get("/teams/").text
    answer = ada.post("/teams/new/", {"name": "Help Centre"})
    assert answer.url == "/teams/help-centre/"
    assert "No arenas yet" in ada.get(answer.url).text
    wanted = {"role": "viewer", "note": "Bob"}
    # Whatever the Host header says, the link leads to this site.
    made = ada.post("/teams/help-centre/members/", wanted, headers={"Host": "localhost:6666"})
    link = re.search(r'value="http://127.0.0.1:8000(/invitations/[^"]+)"', made.text)[1]
    assert "no-store" in made.headers["Cache-Control"]

    assert bob.get(link).url == "/invitations/"
    page = bob.get("/invitations/").text
    assert "to join the team <strong>Help Centre</strong> as a viewer." in " ".join(page.split())
    assert "/sign-up/?next=/invitations/" in page
    answer = bob.post("/sign-up/", account | {"email": "bob@example.org", "next": "/invitations/"})
    assert answer.url == "/invitations/"
    assert bob.post("/invitations/").url == "/teams/help-centre/"
    assert "You have joined Help Centre." in bob.get("/teams/help-centre/").text
    assert "Your role: viewer" in bob.get("/teams/").text
    assert Membership.objects.get(user__username="bob").role == "viewer"
    assert bob.get(link, follow=True).status_code == 410
    assert "already been used" in bob.get(link, follow=True).text


def test_an_invitation_lets_in_where_sign_up_is_closed(settings):
    settings.SIGN_UP = "invited"
    account = {"email": "bob@example.org", "password1": "correct horse battery"}
    _, secret = invite(make_team())
    bob = Client()
    bob.get(reverse("invitation", args=[secret]))
    assert "Create an account" in bob.get("/sign-up/").text
    assert bob.post("/sign-up/", account).url == "/invitations/"
    assert bob.post("/invitations/").status_code == 302


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"revoked_at": timezone.now()}, "was revoked"),
        ({"expires_at": timezone.now()}, "has expired"),
        ({"accepted_at": timezone.now()}, "already been used"),
    ],
)
def test_a_link_that_does_not_work_says_why(client, change, says, settings):
    settings.SIGN_UP = "invited"
    invitation, secret = invite(make_team())
    client.get(reverse("invitation", args=[secret]))
    Invitation.objects.filter(pk=invitation.pk).update(**change)
    for answer in (client.get("/invitations/"), client.post("/invitations/")):
        assert answer.status_code == 410
        assert says in answer.text
    assert "Sign-up is closed" in client.get("/sign-up/").text


def test_an_unknown_link_is_reported(client):
    answer = client.get("/invitations/made-up/", follow=True)
    assert answer.status_code == 410
    assert "This link is no longer valid" in answer.text
    assert client.get("/invitations/").status_code == 410


def test_links_cannot_be_tried_without_end(client, monkeypatch):
    from arena import attempts

    monkeypatch.setitem(attempts.LIMITS, "invitation", attempts.Limit(2, 2, 2, attempts.MINUTES))
    _, secret = invite(make_team())
    link = reverse("invitation", args=[secret])
    for _ in range(3):
        page = client.get(link, follow=True)
    assert "Too many attempts from your network address. Wait five minutes" in page.text
    assert "invites you" not in page.text


def test_nobody_comes_in_without_being_signed_in(client):
    _, secret = invite(make_team())
    client.get(reverse("invitation", args=[secret]))
    assert client.post("/invitations/").url == "/sign-in/?next=/invitations/"
    assert Membership.objects.count() == 1


def test_a_member_who_opens_an_invitation_is_sent_to_the_team():
    team = make_team()
    client = signed_in(team.memberships.get().user)
    client.get(reverse("invitation", args=[invite(team)[1]]))
    answer = client.post("/invitations/")
    assert answer.status_code == 409
    assert "already in" in answer.text
    assert f'href="/teams/{team.slug}/"' in answer.text


def test_a_taken_name_stays_in_the_form_with_its_error():
    make_team(name="Help Centre")
    page = signed_in(make_user()).post("/teams/new/", {"name": "Help, centre"})
    assert "The address /teams/help-centre/ is already taken. Choose another name." in page.text
    assert 'value="Help, centre"' in page.text
    assert Team.objects.count() == 1


def test_names_are_shown_as_text():
    owner = make_user()
    team = make_team(owner, name="<script>alert(1)</script>")
    record(team=team, by=Actor(user=owner), action="did", subject="<b>x</b>", more="<i>y</i>")
    client = signed_in(owner)
    for page in ("team", "team_members", "team_audit", "team_notices", "team_tokens"):
        html = client.get(reverse(page, args=[team.slug])).text
        assert "<script>alert" not in html
        assert "<b>x" not in html
        assert "<i>y" not in html


def test_the_last_owner_learns_why_they_cannot_leave():
    team = make_team(name="Help")
    owner = team.memberships.get()
    client = signed_in(owner.user)
    for url, data in [
        (reverse("leave_team", args=[team.slug]), {}),
        (reverse("change_role", args=[team.slug, owner.pk]), {"role": "member"}),
    ]:
        page = client.post(url, data, follow=True)
        assert "Help needs at least one owner" in page.text


def test_whoever_leaves_is_led_to_their_other_teams():
    team = make_team(name="Help")
    client = signed_in(make_member(team).user)
    page = client.post(reverse("leave_team", args=[team.slug]), follow=True)
    assert "You have left Help." in page.text
    assert page.redirect_chain == [("/teams/", 302)]


def test_an_operator_who_is_no_member_cannot_leave():
    team, client = make_team(), signed_in(make_user(is_staff=True))
    assert client.post(reverse("leave_team", args=[team.slug])).status_code == 404


# -- Tokens --


def test_a_new_token_is_shown_by_one_answer_and_never_again():
    team = make_team()
    client, url = signed_in(team.memberships.get().user), reverse("team_tokens", args=[team.slug])
    made = client.post(url, {"name": "CI", "scopes": ["read", "submit"]})
    assert made.status_code == 200
    assert "no-store" in made.headers["Cache-Control"]
    secret = re.search(r'value="(rs_[^"]+)"', made.text)[1]
    token = tokens.find_token(secret, timezone.now())
    assert token.scopes == ["read", "submit"]
    assert all(secret not in str(morsel) for morsel in client.cookies.values())
    page = client.get(url).text
    assert secret not in page
    assert token.prefix in page
    assert "Scopes: read, submit" in page
    assert "last used" in page


def test_a_token_without_name_or_scope_is_refused_at_the_field():
    team = make_team()
    client, url = signed_in(team.memberships.get().user), reverse("team_tokens", args=[team.slug])
    page = client.post(url, {"name": "", "scopes": []}).text
    assert "Say where the token is used" in page
    assert "Choose at least one scope" in page
    assert 'aria-describedby="id_name_helptext id_name_error"' in page
    assert not undescribed(page)
    assert client.post(url, {"name": "x", "scopes": ["manage"]}).status_code == 200
    assert not ApiToken.objects.exists()


def test_a_revoked_token_leaves_the_list():
    team = make_team()
    token, _ = make_token(team)
    client = signed_in(team.memberships.get().user)
    page = client.post(reverse("revoke_token", args=[team.slug, token.pk]), follow=True).text
    assert "It no longer works" in page
    assert "No tokens yet" in page
    again = client.post(reverse("revoke_token", args=[team.slug, token.pk]), follow=True).text
    assert "was already revoked" in again


# -- What was done, what was told, what there is --


def test_the_audit_log_is_newest_first_and_fifty_to_a_page():
    team = make_team()
    by = Actor(user=make_user("eve"))
    for number in range(60):
        record(team=team, by=by, action="counted", subject=f"number {number}.")
    record(team=make_team(), by=by, action="counted", subject="elsewhere")
    client, url = signed_in(team.memberships.get().user), reverse("team_audit", args=[team.slug])
    first, second = client.get(url).text, client.get(url, {"page": 2}).text
    assert first.index("number 59.") < first.index("number 58.")
    assert "number 10." in first
    assert "number 9." not in first
    assert "number 9." in second
    assert "created the team" in second
    assert "elsewhere" not in first + second
    assert "Page 2 of 2" in client.get(url, {"page": "999"}).text


def test_names_in_the_audit_log_stay_when_accounts_go():
    team = make_team()
    eve = make_user("eve")
    record(team=team, by=Actor(user=eve), action="left a mark")
    eve.delete()
    client = signed_in(team.memberships.get().user)
    assert (
        "<strong>eve</strong> left a mark"
        in client.get(reverse("team_audit", args=[team.slug])).text
    )


def test_notices_lead_to_what_they_are_about():
    team = make_team()
    Notice.objects.create(team=team, key="a", kind="x", sentence="B beats A.", path="/teams/")
    Notice.objects.create(team=make_team(), key="a", kind="x", sentence="Not ours.")
    page = signed_in(team.memberships.get().user).get(reverse("team_notices", args=[team.slug]))
    assert '<a href="/teams/">B beats A.</a>' in page.text
    assert "Not ours" not in page.text


def test_a_member_says_whether_notices_are_mailed_to_them():
    team = make_team()
    member, other = make_member(team), team.memberships.get(role="owner")
    client, url = signed_in(member.user), reverse("team_notices", args=[team.slug])
    assert f"sent to {member.user.email}" in client.get(url).text
    for data, wanted, says in [({}, False, "Turn on email"), ({"wanted": "yes"}, True, "Turn off")]:
        assert says in client.post(url, data, follow=True).text
        member.refresh_from_db()
        assert member.notices_by_email is wanted
    other.refresh_from_db()
    assert other.notices_by_email
    assert signed_in(make_user(is_staff=True)).post(url).status_code == 403


def test_where_no_mail_arrives_nobody_is_promised_any(settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    member = make_member(make_team())
    client, url = signed_in(member.user), reverse("team_notices", args=[member.team.slug])
    for page in (client.get(url), client.post(url, {"wanted": "yes"}, follow=True)):
        assert "This site does not send email" in page.text
        assert "New notifications are also sent" not in page.text


def test_the_audit_log_writes_details_in_words():
    team = make_team()
    details = {"scopes": ["read", "submit"], "n_rows": {"added": 3}, "soft": True, "cap": None}
    details["raters"] = []
    record(team=team, by=Actor(), action="did", **details)
    page = signed_in(team.memberships.get().user).get(reverse("team_audit", args=[team.slug])).text
    for words in ("scopes: read, submit", "n rows: added 3", "soft: yes", "cap: none"):
        assert words in page
    assert "raters:" not in page


def test_a_team_sees_its_arenas_and_its_budget():
    team = make_team()
    make_arena(team=team, name="Ours", visibility="private", n_candidates=2, n_prompts=3)
    make_arena(name="Not ours")
    Team.objects.update(budget=12_500_000_000)
    page = signed_in(team.memberships.get().user).get(reverse("team", args=[team.slug])).text
    assert "Ours" in page
    assert "Not ours" not in page
    assert "3 prompts · 2 candidates" in " ".join(page.split())
    assert "Private" in page
    assert "$12.50" in page


def test_an_administrator_is_not_told_to_ask_one_for_a_budget():
    team = make_team()
    page = reverse("team", args=[team.slug])
    member, boss = team.memberships.get().user, make_user("boss", is_staff=True)
    asks = "ask one of the site’s administrators"
    shown = [" ".join(signed_in(user).get(page).text.split()) for user in (member, boss)]
    assert [asks in text for text in shown] == [True, False]


def test_visible_arenas_with_the_teams_candidates_are_listed():
    team = make_team()
    seen, hidden = (
        make_arena(team=make_team(), name="Open contest"),
        make_arena(team=make_team(), name="Closed contest", visibility="private"),
    )
    for arena in (seen, hidden):
        arena.candidates.update(team=team)
    page = signed_in(team.memberships.get().user).get(reverse("team", args=[team.slug])).text
    assert "Open contest" in page
    assert "Closed contest" not in page


@pytest.mark.parametrize("arenas", [1, 8])
def test_a_team_page_takes_few_queries_however_much_there_is(arenas, django_assert_max_num_queries):
    team = make_team()
    for _ in range(arenas):
        make_arena(team=team)
        make_member(team, Role.VIEWER)
    client = signed_in(team.memberships.get(role="owner").user)
    for page, most in [("team", 12), ("team_members", 8), ("team_audit", 8)]:
        with django_assert_max_num_queries(most):
            client.get(reverse(page, args=[team.slug]))


def test_the_list_of_teams_takes_few_queries(django_assert_max_num_queries):
    ada = make_user()
    for _ in range(6):
        make_team(ada)
    client = signed_in(ada)
    with django_assert_max_num_queries(4):
        page = client.get("/teams/")
    assert page.text.count("Your role: owner") == 6


def test_an_operator_sees_all_teams_and_a_person_their_own():
    ada = make_user()
    make_team(ada, name="Hers")
    make_team(name="Another")
    assert "Another" not in signed_in(ada).get("/teams/").text
    assert "Another" in signed_in(make_user(is_staff=True)).get("/teams/").text


@pytest.mark.parametrize(
    "path",
    [
        "/teams/x/members/99999999999999999999999/role/",
        "/teams/x/audit/?page=99999999999999999999999",
        "/teams/x/audit/?page=%00",
        "/invitations/%00/",
        "/invitations/" + "x" * 3000 + "/",
        "/sign-in/?next=%00",
        "/sign-up/?email=%00",
        "/sign-up/address/%00:x:y/",
        "/password/new/zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz-x-y/",
        "/password/new/1-%00/",
    ],
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_nothing_that_is_typed_into_an_address_breaks_a_page(path, method):
    owner = make_user()
    make_team(owner, name="X")
    hostile = {"name": "\0", "role": "\0", "note": "\0" * 9, "login": "\0", "password": "\0"}
    for client in (Client(), signed_in(owner)):
        assert getattr(client, method)(path, hostile).status_code < 500


def test_reloading_a_new_tokens_page_makes_no_second_one():
    owner = make_user()
    team, client = make_team(owner), signed_in(owner)
    url, data = reverse("team_tokens", args=[team.slug]), {"name": "CI", "scopes": ["read"]}
    first, second = client.post(url, data).text, client.post(url, data | {"name": " CI"}).text
    assert "Token created" in first
    assert 'data-copy="shown-once" hidden' in first
    assert "A token with this name already exists" in second
    assert team.tokens.count() == 1


def test_an_arena_is_listed_with_what_is_not_retired():
    owner = make_user()
    arena = make_arena(3, 2, team=make_team(owner))
    for retired in (arena.prompts.first(), arena.candidates.first()):
        type(retired).objects.filter(pk=retired.pk).update(retired_at=timezone.now())
    page = signed_in(owner).get(reverse("team", args=[arena.team.slug]))
    assert "1 prompt · 2 candidates" in " ".join(page.text.split())


@pytest.mark.parametrize("page", ["team_members", "team_tokens", "new_team", "rename_team"])
def test_nothing_that_is_typed_into_a_form_breaks_a_page(page):
    owner = make_user()
    team = make_team(owner)
    client = signed_in(owner)
    url = reverse(page, args=[] if page == "new_team" else [team.slug])
    for text in ("\0", b"\xed\xa0\x80\xff", "x" * 100_000, "‮\u200b"):
        data = {"name": text, "role": text, "note": text, "scopes": [text]}
        assert client.post(url, data).status_code in (200, 302)
