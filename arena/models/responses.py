"""The answers of candidates to prompts."""

from django.db import models
from django.db.models import Value
from django.db.models.functions import MD5, Cast, Coalesce, Concat

from arena.models.candidates import Candidate
from arena.models.constraints import unique
from arena.models.fields import Check
from arena.models.imports import CatalogQuerySet, Sourced
from arena.models.prompts import Prompt
from arena.validation import clean_text


class Response(Sourced):
    """A candidate's answer to a prompt."""

    # Without an index of its own: the planner would combine it with the prompt's for each answer.
    candidate = models.ForeignKey(
        Candidate, models.CASCADE, related_name="responses", db_index=False
    )
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="responses")
    text = models.TextField(blank=True, validators=[Check(clean_text)])
    messages = models.JSONField(
        null=True, blank=True, help_text="The steps; the text is what the model itself says."
    )
    call = models.OneToOneField(
        "arena.Call", models.SET_NULL, null=True, blank=True, related_name="response"
    )
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    seconds = models.FloatField(null=True, blank=True)
    cost = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Nano-dollars (10^-9 USD)."
    )
    names_itself = models.BooleanField(
        default=False, help_text="The answer says which model wrote it, so votes on it are flagged."
    )
    html = models.TextField(null=True, editable=False)
    html_version = models.PositiveSmallIntegerField(default=0, editable=False)

    objects = CatalogQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            unique("response_once_per_candidate_and_prompt", "candidate", "prompt"),
        ]

    def __str__(self) -> str:
        return f"{self.candidate_id} on {self.prompt_id}"


# Equal for equal answers; of answers in steps, the steps count too.
NO_STEPS = Value("", models.TextField())
ANSWER_DIGEST = MD5(Concat("text", Coalesce(Cast("messages", models.TextField()), NO_STEPS)))
