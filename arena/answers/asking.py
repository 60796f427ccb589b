"""What is sent for an answer, and what the reply means."""

from arena.answers.subjects import candidate_of, prompt_of
from arena.calls.claiming import LONGEST_REPLY
from arena.calls.making import CannotAsk, CannotAskThis, Reading
from arena.calls.models import Call
from arena.calls.providers.base import Message, Reply, Request
from arena.models import Candidate, Prompt, Response
from arena.prompting import TemplateError, render_messages

EMPTY = "The model answered without a word."
CUT_OFF = "The answer reached its limit of tokens and was cut off."
OVERLONG = f"The answer is longer than {LONGEST_REPLY:,} characters."
RETIRED = "The candidate was retired; its answers are not generated any more."
GONE = "The prompt is gone."
UPLOADED = "An answer to this prompt was uploaded before the model was asked."


class AnswerAsking:
    """The arena's side of a call; the ledger does the rest.

    An answer needs no second turn: it says what it says. One that is cut off is no answer, and
    would be again, so it is too long; an empty one has failed, and may be asked for once more.
    """

    def render(self, call: Call) -> Request:
        """Put together what the candidate's model is sent for its prompt."""
        candidate = Candidate.objects.get(pk=candidate_of(call.asker))
        if candidate.retired_at is not None:
            raise CannotAsk(RETIRED)
        prompt = Prompt.objects.filter(pk=prompt_of(call.subject)).first()
        if prompt is None:
            raise CannotAskThis(GONE)
        if Response.objects.filter(candidate=candidate, prompt=prompt).exists():
            raise CannotAskThis(UPLOADED)
        try:
            return request_for(candidate, prompt)
        except TemplateError as error:
            raise CannotAskThis(str(error)) from None

    def read(self, call: Call, reply: Reply) -> Reading:
        """Say whether the reply is an answer."""
        if reply.cut_off:
            return Reading(Call.State.TOO_LONG, note=CUT_OFF)
        if not reply.text.strip():
            return Reading(Call.State.FAILED, note=EMPTY)
        if len(reply.text) > LONGEST_REPLY:
            return Reading(Call.State.TOO_LONG, note=OVERLONG)
        return Reading(Call.State.DONE)

    def repair(self, call: Call) -> str | None:
        return None


def request_for(candidate: Candidate, prompt: Prompt) -> Request:
    """Return what `candidate` asks its model about `prompt`; raises TemplateError."""
    messages = render_messages(
        system_prompt=candidate.system_prompt,
        user_template=candidate.user_template,
        prompt=prompt.text,
        variables=prompt.variables,
        prompt_id=prompt.external_id,
    )
    turns = tuple(Message(role, text) for role, text in messages)
    return Request(candidate.model, turns, candidate.parameters)
