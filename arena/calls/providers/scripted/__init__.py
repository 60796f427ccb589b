"""A model that is none: it reads what it is asked and answers by arithmetic.

It exists so that the demo and the tests run without any key. The same request always gets the
same reply; the model's name is the seed, so `scripted-1` and `scripted-2` disagree at times. As a
judge it likes answers that take up the words of the prompt (and of the reference), with seeded
noise, and now and then it does what real judges do: it prefers whatever comes first, forgets its
verdict, or declines. Asked for an answer, it makes one of the prompt's own words.
"""

import json

from arena.calls.providers.base import Reply, Request, TooLong
from arena.calls.providers.scripted.asked import Asked, read_asked
from arena.calls.providers.scripted.deciding import REFUSED, UNREADABLE, Decided, decide
from arena.calls.providers.scripted.tokens import tokens_of
from arena.calls.providers.scripted.writing import answer_to, note_for, obeying

CONTEXT = 400_000
REFUSAL = "I'm sorry, but I can't assist with that."
EVASION = "Both have their merits, and it depends on the reader."


class ScriptedProvider:
    """Deterministic, without a network, and not a real model."""

    def complete(self, request: Request) -> Reply:
        """Return the reply that the request's texts and its seed decide; raises TooLong."""
        size = sum(len(message.content) for message in request.messages)
        if size > CONTEXT:
            raise TooLong(f"More than {CONTEXT} characters.")
        asked = read_asked(request)
        decided = decide(_seed_of(request), asked) if asked.answers else None
        text = _verdict(request, asked, decided) if decided else _text(request, asked)
        return Reply(
            text=text,
            model=request.model,
            fingerprint="scripted",
            tokens_in=size // 4,
            tokens_out=len(text) // 4,
            logprobs=tokens_of(text, decided) if request.logprobs else (),
        )


def _seed_of(request: Request) -> str:
    """The model, and the sampling parameter `seed` where one was sent."""
    seed = request.parameters.get("seed")
    return request.model if seed is None else f"{request.model}/{seed}"


def _verdict(request: Request, asked: Asked, decided: Decided) -> str:
    """Write down what was decided, in the form that was asked for."""
    if decided.state == REFUSED:
        return REFUSAL
    if request.schema is not None:
        given = {"reasoning": decided.reason, "verdict": _as_schema_has_it(request, decided)}
        return json.dumps(obeying(request.schema, given))
    if decided.state == UNREADABLE:
        return f"{decided.reason} {EVASION}"
    if asked.form == "prometheus":
        return f"Feedback: {decided.reason} [RESULT] {decided.verdict}"
    line = f"VERDICT-{asked.nonce}: {decided.verdict}"
    return line if asked.is_repair else f"{decided.reason}\n\n{line}"


def _as_schema_has_it(request: Request, decided: Decided) -> object:
    """An order is a list of letters, or of lists of letters that tie; all else is a label."""
    wanted = (request.schema or {}).get("properties", {}).get("verdict", {})
    if wanted.get("type") != "array":
        return decided.verdict
    if wanted.get("items", {}).get("type") == "array":
        return [list(group) for group in decided.order]
    return [letter for group in decided.order for letter in group]


def _text(request: Request, asked: Asked) -> str:
    if asked.kind == "note":
        return note_for(asked.prompt)
    if request.schema is not None:
        return json.dumps(obeying(request.schema))
    system = "\n".join(one.content for one in request.messages if one.role == "system")
    return answer_to(asked.prompt, _seed_of(request), system)
