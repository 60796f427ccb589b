"""The pages of an arena's candidates: their configuration, versions, previews and answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.conversations import transcript
from arena.errors import ServiceError
from arena.forms.base import add_service_error, errors_as_messages
from arena.forms.candidates import TEXTS, VariantsForm, VersionForm, free_name
from arena.forms.prompts import format_json
from arena.generation import messages_for
from arena.models import Arena, Candidate, Prompt
from arena.models.fields import label_of
from arena.permissions import (
    can_change,
    can_delete,
    can_read_texts,
    can_retire,
    changeable_candidates,
    is_open_to,
)
from arena.prompting.differences import DiffLine, diff_of
from arena.prompting.templates import TemplateError, variables_in
from arena.services import candidates
from arena.services.candidate_checks import CLOSED, CandidateError, templates_in
from arena.validation import join_names, numbered
from arena.views.arena_context import READ_ONLY, ArenaContext, require_permission
from arena.views.arenas import answer_count, with_answer_counts
from arena.views.prompts import limit_upload
from arena.views.runs import (
    AnswerOffer,
    cap_for,
    generate_for_all,
    generation_of,
    left_for,
    offer_for,
)

PREVIEWED_PROMPTS = 3
ANSWERS_PER_PAGE = 20
# Compared line by line, where all other fields are shown before and after.
COMPARED_TEXTS = ("system_prompt", "user_template")
NOTHING = "nothing"
EMPTY_ROWS: list[dict[str, str]] = [{}, {}]  # a comparison takes two
CHANGED_SINCE_PRICE = (
    "Nothing was saved yet: this is new since the price was shown. Check it, then go on."
)
CHANGED_SINCE_PREVIEW = (
    "The form has changed since the preview, so nothing was saved. Check the new preview, then"
    " save."
)


@dataclass(frozen=True)
class SentMessages:
    """The messages for one prompt, as (role, content), or the error that prevents them."""

    prompt: Prompt
    messages: Sequence[tuple[str, str]] = ()
    error: str = ""


@dataclass(frozen=True)
class PromptPreview:
    """The messages for some prompts; the next preview starts at number `following`.

    `lacking` counts prompts without a value for a variable that the templates use.
    """

    sent: Sequence[SentMessages]
    following: int
    prompts: int
    lacking: int


@dataclass(frozen=True)
class TextChange:
    label: str
    lines: Sequence[DiffLine]


@dataclass(frozen=True)
class VersionChanges:
    """Differences between two versions: in texts, and in other fields as (label, before, after)."""

    texts: Sequence[TextChange]
    fields: Sequence[tuple[str, str, str]]

    def __bool__(self) -> bool:
        return bool(self.texts or self.fields)


def preview_of(arena: Arena, configuration: Mapping[str, Any], start: int = 0) -> PromptPreview:
    """Render the messages for the prompts from number `start` on."""
    prompts = arena.prompts.active().order_by("pk")
    count = prompts.count()
    start = start if start < count else 0
    end = start + PREVIEWED_PROMPTS
    return PromptPreview(
        sent=[_sent_messages(prompt, configuration) for prompt in prompts.defer("html")[start:end]],
        following=end if end < count else 0,
        prompts=count,
        lacking=_count_lacking(arena, configuration),
    )


def _sent_messages(prompt: Prompt, configuration: Mapping[str, Any]) -> SentMessages:
    try:
        rendered = messages_for(
            prompt,
            system_prompt=configuration["system_prompt"],
            user_template=configuration["user_template"],
            messages=configuration["messages"],
        )
    except TemplateError as error:
        return SentMessages(prompt, error=str(error))
    return SentMessages(prompt, rendered)


def _count_lacking(arena: Arena, configuration: Mapping[str, Any]) -> int:
    used = {name for text in templates_in(configuration) for name in variables_in(text)}
    used -= {"prompt"}
    if not used:
        return 0
    rows = arena.prompts.active().values_list("variables", flat=True)
    return sum(not used <= variables.keys() for variables in rows.iterator())


def changes_between(before: Candidate, after: Mapping[str, Any]) -> VersionChanges:
    """Return the differences between a version and the content of the next one."""
    old = before.content | {"messages": transcript(before.messages or ())}
    new = {**after, "messages": transcript(after["messages"] or ())}
    texts, fields = [], []
    for name in Candidate.CONTENT:
        label = label_of(Candidate, name)
        if name in (*COMPARED_TEXTS, "messages"):
            texts.append(TextChange(label, diff_of(old[name], new[name])))
        elif old[name] != new[name]:
            shown = [
                format_json(value) if name == "parameters" else value
                for value in (old[name], new[name])
            ]
            fields.append((label, shown[0] or NOTHING, shown[1] or NOTHING))
    return VersionChanges([change for change in texts if change.lines], fields)


@require_permission("can_visit")
@require_safe
def manage_candidates(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """List the reader's own candidates in full, and the others by their public names."""
    readable = list(with_answer_counts(context.readable_candidates()))
    others = with_answer_counts(context.arena.candidates.revealed()).exclude(
        pk__in=[candidate.pk for candidate in readable]
    )
    own = _to_archive(context, readable)
    return context.render(
        "manage/candidates.html",
        tab="candidates",
        candidates=readable,
        has_teams=any(candidate.team_id for candidate in readable),
        to_archive={candidate.pk for candidate in own},
        has_older=bool(candidates.older_versions(own)),
        # By public name: their place among others would give undisclosed names away.
        others=sorted(others, key=lambda other: (other.retired_at is not None, str(other))),
        prompts=context.arena.prompts.active().count(),
    )


@limit_upload
@require_permission("can_enter")
@require_http_methods(["GET", "HEAD", "POST"])
def new_candidate(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Register one or more candidates, and generate their answers once their price was shown."""
    arena = context.arena
    form = _variants_form(request, context)
    offer, fingerprint = None, ""
    if form.is_ready:
        team = form.team_chosen
        prompts = list(arena.prompts.active().order_by("pk").defer("html"))
        offer = offer_for(form.drafts, prompts, left=left_for(team or arena.team))
        form.suggest_cap(offer.suggested_cap if offer else "")
        fingerprint = fingerprint_of(form, offer)
        do = action_of(request, form, offer, fingerprint)
        if do and (made := _register(request, context, form, offer if do == "generate" else None)):
            return made
    return context.render(
        "manage/variants.html",
        tab="candidates",
        form=form,
        is_ready=form.is_ready,
        offer=offer,
        fingerprint=fingerprint,
        save=f"Add {numbered(len(form.used), 'candidate')}",
        previews=_previews(context, form),
    )


def _variants_form(request: HttpRequest, context: ArenaContext) -> VariantsForm:
    common: dict[str, Any] = {
        "arena": context.arena,
        "teams": context.entering_teams,
        "now": timezone.now(),
    }
    if request.method == "POST":
        return VariantsForm(request.POST, request.FILES, **common)
    number = request.GET.get("like", "")
    if not number.isdecimal() or len(number) > 18:
        return VariantsForm(rows=EMPTY_ROWS, **common)
    like = context.find_candidate(int(number))
    row = {name: getattr(like, name) for name in TEXTS}
    row |= {"name": free_name(like.name, like.arena), "messages": format_json(like.messages)}
    return VariantsForm(rows=[row], like=like, **common)


def fingerprint_of(form: VariantsForm, offer: AnswerOffer | None) -> str:
    """A digest of what was entered and of its price, so that only what was shown is accepted."""
    return f"{form.fingerprint()}-{offer.quote.worst}" if offer else form.fingerprint()


def action_of(
    request: HttpRequest, form: VariantsForm, offer: AnswerOffer | None, fingerprint: str
) -> str:
    """Return "register" or "generate" if that was asked for and may be done as it was shown."""
    do = request.POST.get("do", "")
    if do == "register" and not form.rows_changed:
        return do
    if do == "generate" and offer and request.POST.get("seen") == fingerprint:
        return do
    if do in ("register", "generate"):
        messages.warning(request, CHANGED_SINCE_PRICE)
    return ""


def _register(
    request: HttpRequest, context: ArenaContext, form: VariantsForm, offer: AnswerOffer | None
) -> HttpResponse | None:
    """Register the candidates, and order their answers if there is an offer; None with errors in
    the form."""
    arena = context.arena
    try:
        cap = cap_for(offer, form.cleaned_data["cap"]) if offer else None
        made = candidates.register_variants(
            arena=arena,
            team=form.team_chosen,
            by=context.actor,
            now=timezone.now(),
            variants=form.candidates(),
            cap=cap,
        )
    except candidates.VariantError as error:
        form.add_registration_error(error)
        return None
    except ServiceError as error:
        add_service_error(form, error)
        return None
    names = join_names(candidate.own_name for candidate in made)
    messages.success(request, f"{numbered(len(made), 'candidate')} added: {names}.")
    if offer:
        return generate_for_all(request, made, cap)
    if len(made) == 1:
        return redirect("manage_candidate", arena.slug, made[0].pk)
    return redirect("manage_candidates", arena.slug)


def _previews(context: ArenaContext, form: VariantsForm) -> list[tuple[Candidate, PromptPreview]]:
    """How each draft is sent; none if the reader may not see variables' values."""
    if not form.is_ready or not context.can_see_variables:
        return []
    return [(draft, preview_of(context.arena, draft.content)) for draft in form.drafts]


def _form_preview(request: HttpRequest, context: ArenaContext, form: VersionForm) -> Any:
    """Return a preview; None if the form is invalid or the reader may not see variables' values."""
    if not form.is_bound or form.errors or not context.can_see_variables:
        return None
    start = request.POST.get("from", "")
    is_number = start.isdecimal() and len(start) < 9
    return preview_of(context.arena, form.configuration, int(start) if is_number else 0)


@require_permission("can_visit")
@require_safe
def manage_candidate(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Show a version: its configuration, its answers, and its differences from another version."""
    candidate = context.find_candidate(pk)
    same_name = context.readable_candidates().filter(name=candidate.name, team=candidate.team_id)
    versions = list(with_answer_counts(same_name).order_by("-version"))
    against = _version_to_compare(request.GET.get("against", ""), candidate, versions)
    answers = candidate.responses.revealed().select_related("prompt").defer("html", "prompt__html")
    answers_page = Paginator(answers.order_by("prompt_id"), ANSWERS_PER_PAGE)
    is_open = is_open_to(context.actor, context.arena, candidate.team_id)
    can_edit = is_open and can_change(context.actor, candidate)
    return context.render(
        "manage/candidate.html",
        tab="candidates",
        candidate=candidate,
        versions=versions,
        against=against,
        changes=changes_between(against, candidate.content) if against else None,
        answers=answers_page.get_page(request.GET.get("page")),
        prompts=context.arena.prompts.active().count(),
        answered=next(answer_count(version) for version in versions if version.pk == candidate.pk),
        can_change=can_edit,
        can_retire=can_retire(context.actor, candidate),
        can_delete=can_delete(context.actor, candidate),
        closed="" if is_open else CLOSED,
        generation=generation_of(candidate) if can_edit else None,
    )


def _version_to_compare(
    number: str, candidate: Candidate, versions: list[Candidate]
) -> Candidate | None:
    """Return the version with this number, else the one before `candidate`."""
    others = [version for version in versions if version.pk != candidate.pk]
    chosen = (version for version in others if str(version.version) == number)
    earlier = (version for version in others if version.version < candidate.version)
    return next(chosen, None) or next(earlier, None)


@limit_upload
@require_permission("can_visit")
@require_http_methods(["GET", "HEAD", "POST"])
def edit_candidate(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Edit a candidate; one button previews the next version, and only a previewed one is saved."""
    candidate = context.find_candidate_to_change(pk)
    arena, now = context.arena, timezone.now()
    data = request.POST if request.method == "POST" else None
    form = VersionForm(data, instance=candidate, arena=arena, now=now)
    is_open = is_open_to(context.actor, arena, candidate.team_id)
    if form.is_bound and form.is_valid() and not is_open:
        form.add_error(None, CLOSED)
    if form.is_bound and form.is_valid() and _is_save(request, form):
        try:
            saved = candidates.revise_candidate(
                candidate=candidate,
                by=context.actor,
                now=now,
                says_privacy=form.says_privacy(),
                **form.privacy(),
                **form.configuration,
            )
        except CandidateError as error:
            form.add_candidate_error(error)
        else:
            message = f"{saved.own_name} saved."
            if saved.pk != candidate.pk:
                message += f" {candidate.own_name} has not changed."
            messages.success(request, message)
            return redirect("manage_candidate", arena.slug, saved.pk)
    preview = _form_preview(request, context, form)
    return context.render(
        "manage/candidate_form.html",
        tab="candidates",
        candidate=candidate,
        form=form,
        fixed=candidates.is_in_use(candidate),
        preview=preview,
        changes=changes_between(candidate, form.configuration) if preview else None,
        fingerprint=form.fingerprint() if preview else "",
    )


def _is_save(request: HttpRequest, form: VersionForm) -> bool:
    """Return whether the form is to be saved and its input has been previewed."""
    if request.POST.get("do") != "save":
        return False
    if request.POST.get("seen") == form.fingerprint():
        return True
    messages.warning(request, CHANGED_SINCE_PREVIEW)
    return False


@require_permission("can_visit")
@require_POST
def retire_candidate(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Archive a version for good; the arena's team may also archive its guests' versions."""
    candidate = context.find_candidate_to_retire(pk)
    candidates.retire_candidate(candidate=candidate, by=context.actor, now=timezone.now())
    can_read = can_read_texts(context.actor, candidate)
    name = candidate.own_name if can_read else str(candidate)
    messages.success(request, f"{name} archived. It stays on the leaderboard, marked as archived.")
    if not can_read:
        return redirect("manage_candidates", context.arena.slug)
    return redirect("manage_candidate", context.arena.slug, candidate.pk)


def _to_archive(context: ArenaContext, readable: Iterable[Candidate]) -> list[Candidate]:
    """The active candidates of the reader's own teams that the reader may archive."""
    own = changeable_candidates(context.actor, context.arena, readable)
    return [candidate for candidate in own if candidate.retired_at is None]


@require_permission("can_visit")
@require_http_methods(["GET", "HEAD", "POST"])
def archive_candidates(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Name the chosen candidates, or all but the newest versions, and archive them after that."""
    rows = context.readable_candidates().select_related("arena__team", "team")
    own = _to_archive(context, rows.order_by("name", "version"))
    if not own and not context.can_submit:
        raise PermissionDenied(READ_ONLY)
    sent = request.POST if request.method == "POST" else request.GET
    ids = sent.getlist("candidate")
    chosen = [candidate for candidate in own if str(candidate.pk) in ids]
    if sent.get("older"):
        chosen = candidates.older_versions(own)
    if not chosen:
        messages.warning(request, "Nothing was archived: choose at least one active candidate.")
    elif request.method != "POST":
        return context.render("manage/archive.html", tab="candidates", chosen=chosen)
    else:
        candidates.retire_candidates(candidates=chosen, by=context.actor, now=timezone.now())
        names = join_names(candidate.own_name for candidate in chosen)
        they = "It stays" if len(chosen) == 1 else "They stay"
        done = f"{numbered(len(chosen), 'candidate')} archived: {names}."
        messages.success(request, f"{done} {they} on the leaderboard, marked as archived.")
    return redirect("manage_candidates", context.arena.slug)


@require_permission("can_visit")
@require_POST
def remove_candidate(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Delete a version that nobody has voted on; only owners of its team can."""
    candidate = context.find_candidate_to_change(pk)
    if not can_delete(context.actor, candidate):
        raise PermissionDenied(gettext_lazy("Only owners of the team can delete its candidates."))
    with errors_as_messages(request):
        candidates.delete_candidate(candidate=candidate, by=context.actor)
        messages.success(request, f"{candidate.own_name} deleted.")
        return redirect("manage_candidates", context.arena.slug)
    return redirect("manage_candidate", context.arena.slug, pk)
