"""The review of held votes: the evidence in sentences and as a plot, and the decision."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from arena.actors import actor_of
from arena.admin.base import ThroughServices
from arena.models import Candidate, Hold
from arena.services import holds

RELEASE, VOID = "release", "void"
DECISIONS = {RELEASE: holds.release, VOID: holds.void}
SENTENCES = {
    "favours": "{candidate} won {k} of {n} votes of this rater. Tastes differ, but honest votes"
    " are rarely that one-sided.",
    "network": "{candidate} won {k} of {n} votes of {raters} raters in one network.",
    "burst": "{candidate} won {k} of {n} votes of {raters} raters who came one after the other.",
    "board": "{candidate} won {k} of {n} votes of {raters} raters, this one among them.",
    "sides": "{k} of {n} decided votes chose the same side, which a coin assigns.",
    "speed": "{k} of {n} votes were faster than anyone can read.",
    "skips": "{k} of {n} votes are on pairs with {candidate}; nearly all others were skipped.",
}
ROW, LABEL, WIDTH = 22, 180, 200  # px


class DecisionForm(forms.ModelForm):
    decision = forms.ChoiceField(
        choices=[("", "Keep on hold"), (RELEASE, "Release: they count again"), (VOID, "Void")],
        required=False,
    )
    reason = forms.CharField(
        max_length=holds.REASON_LIMIT, required=False, help_text="The audit log shows it."
    )

    class Meta:
        model = Hold
        fields: list[str] = []


@admin.register(Hold)
class HoldAdmin(ThroughServices):
    """Held votes, for those who may void votes."""

    form = DecisionForm
    list_display = ["__str__", "arena", "state", "n_votes", "held_at", "objected_at"]
    list_filter = ["state", "test", "arena"]
    list_select_related = ["arena", "rater"]
    readonly_fields = [
        *("arena", "rater", "network", "state", "n_votes", "held_at", "explanation", "plot"),
        *("objection", "objected_at", "decided_by", "decided_at", "decision_reason"),
    ]

    def get_fields(self, request: HttpRequest, obj: Hold | None = None) -> Any:
        is_open = obj is not None and obj.state == Hold.State.HELD
        names = [name for name in self.readonly_fields if is_open is False or "deci" not in name]
        return [*names, "decision", "reason"] if is_open else names

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Hold | None = None) -> bool:
        may_void = bool(request.user.has_perm("arena.change_vote"))
        return may_void and (obj is None or obj.state == Hold.State.HELD)

    def save_model(self, request: HttpRequest, obj: Hold, form: Any, change: bool) -> None:
        if decide := DECISIONS.get(form.cleaned_data["decision"]):
            reason = form.cleaned_data["reason"]
            decide(hold=obj, by=actor_of(request), reason=reason, now=timezone.now())

    @admin.display(description="reason")
    def decision_reason(self, hold: Hold) -> str:
        return hold.reason

    @admin.display(description="evidence")
    def explanation(self, hold: Hold) -> str:
        evidence = hold.evidence
        candidate = Candidate.objects.filter(pk=evidence["candidate"]).first()
        sentence = SENTENCES[hold.test].format(
            candidate=candidate, k=evidence["k"], n=evidence["n"], raters=evidence["raters"]
        )
        return (
            f"{sentence} If the votes were honest, evidence this strong would turn up at most once"
            f" in {evidence['e_value']:,.0f} cases."
        )

    @admin.display(description="wins by candidate: these votes, and all others")
    def plot(self, hold: Hold) -> SafeString:
        wins = hold.evidence["wins"]
        names = Candidate.objects.in_bulk([row["candidate"] for row in wins])
        return format_html(
            '<svg width="{}" height="{}" role="img" aria-label="Win rates">{}</svg>',
            LABEL + WIDTH + 110,
            ROW * len(wins),
            format_html_join(
                "",
                '<text x="0" y="{}" fill="currentColor">{}</text>'
                '<rect x="{}" y="{}" width="{}" height="8" fill="#b45309"><title>{}</title></rect>'
                '<rect x="{}" y="{}" width="{}" height="6" fill="#64748b"><title>{}</title></rect>'
                '<text x="{}" y="{}" fill="currentColor">{} / {}</text>',
                (
                    (
                        *(ROW * place + 14, str(names.get(row["candidate"], "deleted"))[:24]),
                        *(LABEL, ROW * place + 3, _width(row["own"]), "These votes"),
                        *(LABEL, ROW * place + 12, _width(row["others"]), "All others"),
                        *(LABEL + WIDTH + 8, ROW * place + 14, _rate(row["own"])),
                        _rate(row["others"]),
                    )
                    for place, row in enumerate(wins)
                ),
            ),
        )


def _width(won: list[float]) -> int:
    return round(WIDTH * won[0] / won[1]) if won[1] else 0


def _rate(won: list[float]) -> str:
    return f"{100 * won[0] / won[1]:.0f} %" if won[1] else "–"
