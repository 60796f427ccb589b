"""A scripted model for demos and tests: deterministic, without a network or key.

The same request always gets the same reply. The model's name is the seed, so `scripted-1` and
`scripted-2` sometimes disagree. As a judge it prefers answers that use the words of the prompt and
the reference, with seeded noise, and sometimes does what real judges do: it prefers the first
answer, forgets its verdict, or declines. As a candidate it writes answers from the prompt's words.
"""

import asyncio
import hashlib
import json
import math
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from arena.calls.providers.base import AnswerPart, Reply, Request, TokenLogprob, TooLongError

CLOSING = re.compile(r"</[a-z-]+-([0-9a-f]{8,32})>")
ANSWER = re.compile(r"answer-[a-z]")
SECTION = re.compile(r"^###([^:\n]+):[ \n]?(.*?)(?=^###|\Z)", re.MULTILINE | re.DOTALL)
BETWEEN = re.compile(r"between (\d+) and (\d+)")
RESULT = "[RESULT]"
MOST_LABELS = 100
FIVE = ("1", "2", "3", "4", "5")
Kind = Literal["pairwise", "direct", "listwise", "note", "text"]


@dataclass(frozen=True)
class ScriptedRequest:
    """What a request asks for. `labels` are those of a scale, from worst to best.

    `items` is the number of those on a checklist. `beside` is a description of a good answer that
    comes with the prompt: a reference or a grading note.
    """

    kind: Kind
    prompt: str
    answers: tuple[str, ...] = ()
    beside: str = ""
    labels: tuple[str, ...] = ()
    items: int = 0
    form: Literal["line", "prometheus"] = "line"
    nonce: str = ""
    is_repair: bool = False


def read_asked(request: Request) -> ScriptedRequest:
    """Return what `request` asks for; a request with nothing to judge asks for a text.

    The last turn that shows something to judge counts: those before it are examples, and one
    after it asks for the verdict again.
    """
    system = [message.content for message in request.messages if message.role == "system"]
    turns = [message.content for message in request.messages if message.role == "user"] or [""]
    for turn in reversed(turns):
        parsed = _fenced_texts("\n".join([*system, turn]), request.schema) or _prometheus_task(turn)
        if parsed:
            return replace(parsed, is_repair=turn is not turns[-1])
    return ScriptedRequest("text", turns[-1])


def _fenced_texts(text: str, schema: Mapping[str, Any] | None) -> ScriptedRequest | None:
    """Read fences with a nonce; None if they contain no prompt."""
    # A stranger's text comes before its closing tag, so the last such tag is a real one.
    nonces = CLOSING.findall(text)
    if not nonces:
        return None
    nonce = nonces[-1]
    block = re.compile(rf"<([a-z-]+)-{nonce}>\n(.*?)\n</\1-{nonce}>", re.DOTALL)
    blocks = dict(block.findall(text))
    if "prompt" not in blocks:
        return None
    answers = tuple(blocks[name] for name in sorted(blocks) if ANSWER.fullmatch(name))
    verdict = (schema or {}).get("properties", {}).get("verdict", {})
    return ScriptedRequest(
        kind=_kind_of_task(len(answers), verdict),
        prompt=blocks.get("prompt", ""),
        answers=answers,
        beside="\n".join(blocks[name] for name in ("reference", "note") if name in blocks),
        labels=_labels_of_answers(text, nonce, verdict) if len(answers) == 1 else (),
        items=len(verdict.get("properties", ()))
        or len(re.findall(rf"^VERDICT-{nonce} \d+:", text, re.MULTILINE)),
        nonce=nonce,
    )


def _kind_of_task(answers: int, verdict: Mapping[str, Any]) -> Kind:
    if answers > 2 or (answers and verdict.get("type") == "array"):
        return "listwise"
    kinds: tuple[Kind, ...] = ("note", "direct", "pairwise")
    return kinds[answers]


def _labels_of_answers(text: str, nonce: str, verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels of the scale: those of the schema, or those of the lines that may be written."""
    if "enum" in verdict:
        return tuple(map(str, verdict["enum"]))
    lines = re.findall(rf"^VERDICT-{nonce}: ?(.*\S)", text, re.MULTILINE)
    labels = list(dict.fromkeys(line for line in lines if "<" not in line))
    if all(re.fullmatch(r"-?\d+", label) for label in labels):
        labels.sort(key=int)
    return tuple(labels) or FIVE


def _prometheus_task(text: str) -> ScriptedRequest | None:
    """Read the two formats of Prometheus 2, whose parts have headings."""
    if RESULT not in text:
        return None
    parts = {title.strip().lower(): body.strip() for title, body in SECTION.findall(text)}
    answers = [body for title, body in parts.items() if title.startswith("response")]
    if not 1 <= len(answers) <= 2:
        return None
    return ScriptedRequest(
        kind="pairwise" if len(answers) == 2 else "direct",
        prompt=parts.get("the instruction to evaluate") or parts.get("instruction", ""),
        answers=tuple(answers),
        beside="\n".join(body for title, body in parts.items() if title.startswith("reference")),
        labels=_range_of_scores(parts.get("task description", "")) if len(answers) == 1 else (),
        form="prometheus",
    )


def _range_of_scores(task: str) -> tuple[str, ...]:
    match = BETWEEN.search(task)
    low, high = (int(match.group(1)), int(match.group(2))) if match else (1, 5)
    return tuple(map(str, range(low, high + 1))) if 0 < high - low < MOST_LABELS else FIVE


FLIPS = 0.08
UNREADABLE_SHARE = 0.02
REFUSALS = 0.01
TIE_WITHIN = 0.06
NOISE = 0.5
SOFTNESS = 0.1  # difference of scores that makes one verdict e times as likely as another
WORD = re.compile(r"\w{4,}")
REFUSED, UNREADABLE, DECIDED = "refused", "unreadable", "decided"


@dataclass(frozen=True)
class ScriptedVerdict:
    """A verdict to be written, and the probability of each possible one.

    `order` is that of a list of answers: groups of letters, the best first, ties within a group.
    """

    verdict: str
    reason: str
    state: str = DECIDED
    chances: dict[str, float] = field(default_factory=dict)
    order: tuple[tuple[str, ...], ...] = ()


def decide(seed: str, asked: ScriptedRequest) -> ScriptedVerdict:
    """Return the verdict of the judge `seed` on the answers shown."""
    scores = [_quality_of_answer(seed, asked, answer) for answer in asked.answers]
    mood = fraction(seed, "mood", asked.prompt, *asked.answers)
    first_is_best = mood > 1 - FLIPS
    if asked.kind == "pairwise":
        no_ties = asked.form == "prometheus"
        first, second = scores
        reason = f"Scripted, not a real model. Answer A scores {first:.2f}, B {second:.2f}."
        merits = {"A": first - second, "B": second - first}
        if not no_ties:
            merits["TIE"] = TIE_WITHIN
        if first_is_best:
            reason = f"{reason} The first answer makes the first impression."
            merits["A"] = max(merits.values()) + TIE_WITHIN
        decided = _likeliest(merits, reason)
    elif asked.kind == "direct":
        decided = _on_a_scale(scores[0], asked.labels)
    else:
        decided = _answers_in_order(scores, first_is_best)
    if mood < REFUSALS:
        return replace(decided, state=REFUSED)
    if mood < REFUSALS + UNREADABLE_SHARE and not asked.is_repair:
        return replace(decided, state=UNREADABLE)
    return decided


def _on_a_scale(score: float, labels: Sequence[str]) -> ScriptedVerdict:
    """Divide the range of scores evenly among the labels."""
    place = score / (1 + NOISE) * len(labels) - 0.5
    merits = {label: -abs(place - i) * SOFTNESS for i, label in enumerate(labels)}
    return _likeliest(merits, f"Scripted, not a real model. The answer scores {score:.2f}.")


def _answers_in_order(scores: Sequence[float], first_is_best: bool) -> ScriptedVerdict:
    letters = {chr(ord("A") + i): score for i, score in enumerate(scores)}
    named = ", ".join(f"{letter} {score:.2f}" for letter, score in letters.items())
    if first_is_best:
        letters["A"] = max(scores) + 2 * TIE_WITHIN
    groups: list[list[str]] = []
    for letter in sorted(letters, key=lambda one: -letters[one]):
        if groups and letters[groups[-1][0]] - letters[letter] < TIE_WITHIN:
            groups[-1].append(letter)
        else:
            groups.append([letter])
    return ScriptedVerdict(
        verdict=" > ".join(" = ".join(group) for group in groups),
        reason=f"Scripted, not a real model. The answers score: {named}.",
        order=tuple(map(tuple, groups)),
    )


def _likeliest(merits: dict[str, float], reason: str) -> ScriptedVerdict:
    best = max(merits, key=lambda label: merits[label])
    weights = {name: math.exp((merit - merits[best]) / SOFTNESS) for name, merit in merits.items()}
    total = sum(weights.values())
    return ScriptedVerdict(
        best, reason, chances={name: weight / total for name, weight in weights.items()}
    )


def _quality_of_answer(seed: str, asked: ScriptedRequest, answer: str) -> float:
    """The share of the longer expected words that the answer uses, plus noise: 0 to 1 + NOISE.

    The amount of noise depends on the judge: some are more careful than others.
    """
    wanted = set(WORD.findall(f"{asked.prompt}\n{asked.beside}".lower()))
    used = wanted & set(WORD.findall(answer.lower()))
    noise = NOISE * (1 + fraction(seed, "carelessness")) / 2
    return len(used) / max(1, len(wanted)) + noise * fraction(seed, "quality", asked.prompt, answer)


def fraction(*parts: str) -> float:
    """Return a number in [0, 1) that depends only on `parts`."""
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


PIECE = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
ALL_BUT_CERTAIN = -0.001


def tokens_of(text: str, decided: ScriptedVerdict | None) -> tuple[TokenLogprob, ...]:
    """Cut `text` into tokens that add up to the text.

    A label of several words has no token of its own, and so no alternatives.
    """
    pieces = PIECE.findall(text)
    chances = decided.chances if decided else {}
    verdict = decided.verdict if decided else ""
    last = max((i for i, piece in enumerate(pieces) if piece.strip() == verdict), default=-1)
    return tuple(
        _uncertain(piece, verdict, chances) if i == last and chances else _certain(piece)
        for i, piece in enumerate(pieces)
    )


def _certain(piece: str) -> TokenLogprob:
    return TokenLogprob(piece, ALL_BUT_CERTAIN, ((piece, ALL_BUT_CERTAIN),))


def _uncertain(piece: str, verdict: str, chances: dict[str, float]) -> TokenLogprob:
    space = piece[: -len(verdict)]
    ranked = sorted(chances.items(), key=lambda item: -item[1])
    top = tuple((space + label, math.log(max(chance, 1e-12))) for label, chance in ranked)
    return TokenLogprob(piece, math.log(chances[verdict]), top)


LABEL = "Scripted text, by no real model."
MOST_WORDS = 12
SENTENCES = (
    "Start with {}.",
    "Mind {} as well.",
    "For {}, take the usual way and check what comes of it.",
    "As to {}: a short step at a time.",
)


def note_for(prompt: str) -> str:
    """Return a grading note: the words that a good answer to `prompt` uses."""
    words = ", ".join(_words_of(prompt)[:MOST_WORDS]) or "what was asked"
    return f"Scripted note, by no real model. A good answer takes up: {words}."


def answer_to(prompt: str, seed: str, system: str) -> str:
    """Return an answer with as many words of `prompt` as model and system prompt allow."""
    diligence = 0.3 + 0.7 * fraction(seed, "diligence", system)
    kept = [word for word in _words_of(prompt) if fraction(seed, system, prompt, word) < diligence]
    sentences = [_scripted_sentence(seed, system, word) for word in kept[:MOST_WORDS]]
    return (
        " ".join([LABEL, *sentences]) if sentences else f"{LABEL} There is nothing to add to that."
    )


def _words_of(text: str) -> list[str]:
    return list(dict.fromkeys(WORD.findall(text.lower())))


def _scripted_sentence(seed: str, system: str, word: str) -> str:
    place = int(fraction(seed, system, "sentence", word) * len(SENTENCES))
    return SENTENCES[place].format(word)


def obeying(schema: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Any:
    """Return a value that matches `schema`; `given` are properties that are known already."""
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return obeying(schema[key][0], given)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        values = given or {}
        parts = schema.get("properties", {})
        return {name: values[name] if name in values else obeying(parts[name]) for name in parts}
    if kind == "array":
        return [obeying(schema.get("items", {})) for _ in range(schema.get("minItems", 0))]
    plain = {"string": LABEL, "boolean": False, "integer": 0, "number": 0}
    return schema.get("minimum", plain[kind]) if kind in plain else None


CONTEXT = 400_000
SECONDS_AT_FIRST = 0.15
SECONDS_PER_WORD = 0.02
REFUSAL = "I'm sorry, but I can't assist with that."
EVASION = "Both have their merits, and it depends on the reader."


class ScriptedProvider:
    """The provider of the endpoint `scripted`."""

    def models(self) -> list[str]:
        return ["scripted-1", "scripted-2", "scripted-3"]

    def complete(self, request: Request) -> Reply:
        """Return the reply that the request's texts and seed determine. Raises TooLongError."""
        size = sum(len(message.content) for message in request.messages)
        if size > CONTEXT:
            raise TooLongError(f"More than {CONTEXT} characters.")
        asked = read_asked(request)
        decided = decide(_seed_of(request), asked) if asked.answers else None
        text = _verdict_on(request, asked, decided) if decided else _reply_text(request, asked)
        return Reply(
            text=text,
            model=request.model,
            fingerprint="scripted",
            tokens_in=size // 4,
            tokens_out=len(text) // 4,
            logprobs=tokens_of(text, decided) if request.logprobs else (),
        )

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart | Reply, None]:
        """Yield the same reply word by word, each model at a pace of its own."""
        reply = self.complete(request)
        pace = 0.8 + 0.4 * fraction(request.model, "pace")
        await asyncio.sleep(SECONDS_AT_FIRST * pace)
        for word in re.findall(r"\s*\S+|\s+$", reply.text):
            yield AnswerPart(word)
            await asyncio.sleep(SECONDS_PER_WORD * pace)
        yield reply


def _seed_of(request: Request) -> str:
    """The model, and the sampling parameter `seed` if sent."""
    seed = request.parameters.get("seed")
    return request.model if seed is None else f"{request.model}/{seed}"


def _verdict_on(request: Request, asked: ScriptedRequest, decided: ScriptedVerdict) -> str:
    """Write the verdict in the requested form."""
    if decided.state == REFUSED:
        return REFUSAL
    if request.schema is not None:
        verdict = _as_schema_has_it(request, decided)
        if asked.items:
            verdict = _checked(_seed_of(request), asked, int(decided.verdict))
        given = {"reasoning": decided.reason, "verdict": verdict}
        return json.dumps(obeying(request.schema, given))
    if decided.state == UNREADABLE:
        return f"{decided.reason} {EVASION}"
    if asked.form == "prometheus":
        return f"Feedback: {decided.reason} [RESULT] {decided.verdict}"
    line = f"VERDICT-{asked.nonce}: {decided.verdict}"
    if asked.items:
        line = _checklist(_seed_of(request), asked, int(decided.verdict))
    return line if asked.is_repair else f"{decided.reason}\n\n{line}"


def _checklist(seed: str, asked: ScriptedRequest, of_five: int) -> str:
    """Answer each item of a checklist; the better the answer, the more often with yes."""
    return "\n".join(
        f"VERDICT-{asked.nonce} {item}: {'YES' if is_met else 'NO'}"
        for item, is_met in _checked(seed, asked, of_five).items()
    )


def _checked(seed: str, asked: ScriptedRequest, of_five: int) -> dict[str, bool]:
    return {
        str(item): fraction(seed, f"item {item}", *asked.answers) < of_five / 5
        for item in range(1, asked.items + 1)
    }


def _as_schema_has_it(request: Request, decided: ScriptedVerdict) -> object:
    """An order is a list of letters, or of lists of tied letters; all else is a label."""
    wanted = (request.schema or {}).get("properties", {}).get("verdict", {})
    if wanted.get("type") != "array":
        return decided.verdict
    if wanted.get("items", {}).get("type") == "array":
        return [list(group) for group in decided.order]
    return [letter for group in decided.order for letter in group]


def _reply_text(request: Request, asked: ScriptedRequest) -> str:
    if asked.kind == "note":
        note = note_for(asked.prompt)
        return json.dumps({"note": note}) if request.schema is not None else note
    if request.schema is not None:
        return json.dumps(obeying(request.schema))
    system = "\n".join(message.content for message in request.messages if message.role == "system")
    return answer_to(asked.prompt, _seed_of(request), system)
