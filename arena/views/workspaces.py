"""How a team starts: two prompts to compare, or a file to import, each with a new arena."""

from collections.abc import Sequence

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from arena.actors import TeamPermission, actor_of
from arena.errors import ServiceError
from arena.forms.base import add_service_error
from arena.forms.candidates import VariantsForm
from arena.forms.workspaces import ComparisonForm, StartForm
from arena.models import Arena, Candidate, Team
from arena.services.candidates import VariantError
from arena.services.teams import TeamError
from arena.services.workspaces import start_arena
from arena.site import team_budget
from arena.validation import numbered
from arena.views.candidates import EMPTY_ROWS, action_of, fingerprint_of
from arena.views.prompts import limit_upload
from arena.views.runs import AnswerOffer, cap_for, generate_for_all, left_for, offer_for

MOST_ARENAS = 5


def prompt_name(number: int) -> str:
    return f"Prompt {chr(ord('A') + number - 1) if number <= 26 else number}"


@limit_upload
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def compare_prompts(request: HttpRequest) -> HttpResponse:
    """Create an arena with its questions and prompts, and the team if there is none, at once."""
    actor = actor_of(request)
    teams = list(actor.teams_with(TeamPermission.SUBMIT).order_by("name"))
    start = ComparisonForm(
        *((request.POST, request.FILES) if request.method == "POST" else ()),
        prefix="arena",
        teams=teams,
        person=actor.name,
    )
    form = VariantsForm(
        *((request.POST, request.FILES) if request.method == "POST" else ()),
        arena=Arena(visibility=Arena.Visibility.PRIVATE),
        teams=[None],
        rows=EMPTY_ROWS,
        default_name=prompt_name,
        least=2,
        variables=set(),
        now=timezone.now(),
    )
    if form.is_rearranged:
        start.skip_checks()
    offer, fingerprint = None, ""
    if form.is_ready and start.is_valid():
        team = start.team_chosen
        left = left_for(team) if team else team_budget()
        offer = offer_for(form.drafts, start.drafts(), left=left)
        form.suggest_cap(offer.suggested_cap if offer else "")
        fingerprint = fingerprint_of(form, offer)
        do = action_of(request, form, offer, fingerprint)
        chosen = offer if do == "generate" else None
        if do and (made := _start(request, start, form, chosen)):
            return made
    return render(
        request,
        "manage/compare_prompts.html",
        {
            "start": start,
            "form": form,
            "is_ready": form.is_ready and start.is_valid(),
            "offer": offer,
            "fingerprint": fingerprint,
            "save": f"Create the arena with {numbered(len(form.used), 'candidate')}",
            "arenas": _arenas_with_prompts(teams),
        },
    )


def _arenas_with_prompts(teams: Sequence[Team]) -> list[Arena]:
    """The newest arenas of the teams in which a prompt can be changed in an experiment."""
    own = Arena.objects.listed().filter(team__in=teams)
    entered = Candidate.objects.active().filter(arena=OuterRef("pk")).exclude(endpoint="")
    return list(own.filter(Exists(entered)).order_by("-pk")[:MOST_ARENAS])


def _start(
    request: HttpRequest, start: ComparisonForm, form: VariantsForm, offer: AnswerOffer | None
) -> HttpResponse | None:
    """Create everything, and order the answers if there is an offer; None with errors in the
    forms."""
    try:
        cap = cap_for(offer, form.cleaned_data["cap"]) if offer else None
        arena, made = start_arena(
            by=actor_of(request),
            now=timezone.now(),
            prompts=start.rows,
            variants=form.candidates(),
            cap=cap,
            **start.arena_fields,
        )
    except VariantError as error:
        form.add_registration_error(error)
        return None
    except TeamError as error:
        start.add_error("team_name", error.message)
        return None
    except ServiceError as error:
        add_service_error(start if error.field in start.fields else form, error)
        return None
    messages.success(request, f"{arena} has been created.")
    return generate_for_all(request, made, cap) if offer else redirect("manage_arena", arena.slug)


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def choose_import(request: HttpRequest) -> HttpResponse:
    """Choose the arena for a file's rows, or create one for them."""
    actor = actor_of(request)
    teams = list(actor.teams_with(TeamPermission.SUBMIT).order_by("name"))
    form = StartForm(request.POST or None, teams=teams, person=actor.name)
    if form.is_bound and form.is_valid():
        try:
            arena, _ = start_arena(by=actor, now=timezone.now(), **form.arena_fields)
        except TeamError as error:
            form.add_error("team_name", error.message)
        except ServiceError as error:
            add_service_error(form, error)
        else:
            return redirect("import_file", arena.slug)
    own = Arena.objects.listed().filter(team__in=teams).select_related("team")
    return render(
        request,
        "manage/choose_import.html",
        {"form": form, "arenas": own.order_by("-pk"), "teams": teams},
    )
