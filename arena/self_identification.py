"""Detection of responses that reveal their author.

Votes are blind, but a rater who reads "As Claude, I …" knows the candidate. Such a response is
flagged. A mere mention is not: a text about Claude Monet or the history of OpenAI stays blind.

Each mention of a model or a maker is judged by the rest of its sentence, at most `WINDOW`
characters on either side. To bound the time, only the first and the last `EDGE` characters of a
long text are read: that is where people and models introduce themselves.
"""

import json
import re
from collections.abc import Iterable, Sequence

from arena.conversations import Message
from arena.shown_text import as_read

WINDOW = 160
EDGE = 20_000
MASK = "[name hidden]"

_MODELS = (
    r"ChatGPT|GPT[- ]?\d[\w.-]*|Claude|Gemini|Gemma|Bard|PaLM(?: ?2)?|L[Ll]a[Mm][Aa]|Vicuna"
    r"|Mi[sx]tral|Qwen|Tongyi Qianwen|Grok|DeepSeek|Copilot|Bing Chat|Kimi|ChatGLM|ERNIE Bot"
    r"|Command R\+?|WizardLM|OpenAssistant"
)
_MAKERS = (
    r"OpenAI|Anthropic|Google(?: DeepMind| AI| Research)?|DeepMind|Meta(?: AI)?|Mistral(?: AI)?"
    r"|Microsoft|Alibaba(?: Cloud)?|xAI|Cohere|DeepSeek|Moonshot AI|Zhipu(?: AI)?|Baidu|LMSYS"
    r"|Databricks|NVIDIA|AI21(?: Labs)?|Hugging Face|Stability AI|Amazon"
)
_MODEL = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_MODELS})(?![A-Za-z])")
_MAKER = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_MAKERS})(?![A-Za-z])")

_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n\s*\n")
_QUOTES = str.maketrans(
    {"\u2019": "'", "\u02bc": "'", "\u00a0": " ", "\n": " ", "*": " ", "_": " "}
)

_AI = r"\b(?:AI|A\.I\.|artificial intelligence|language models?|assistant|chatbot|LLM|bot)\b"
_MADE = (
    r"\b(?:developed|created|made|trained|built|designed|produced|provided|programmed|engineered"
    r"|launched|released|model+ed|powered)"
)
_MAKERS_WORDS = (
    r"(?:,| the| same| company| team| lab| people| folks| researchers?| at| called| named)*"
)
_IS_ME = r"\b(?:I am|I'm)"

# The words right before a model's name by which a speaker introduces itself.
_NAMED = re.compile(
    rf"(?:{_IS_ME}|\bmy name is|\bmy name's|\bcall me"
    rf"|(?:{_IS_ME}|\bas an?) [^.]{{0,60}}\b(?:called|named|known as)"
    rf"|{_IS_ME}\b[^.]{{0,40}}\b(?:based on|built on|powered by|version of|instance of)"
    r"|\bI (?:run|was built) on"
    r"|\bje suis|\bich bin|\b(?:yo )?soy|\bsono|\beu sou|\bik ben|我是|我叫|私は|저는|\bя)"
    r"(?: an?| the| AI| assistant| model| just| actually| really)*[\s,:'\"“(—-]*$",
    re.IGNORECASE,
)
# "I'm a Gemini" is about a horoscope, and "I am Claude Monet" about a painter.
_ARTICLE_ONLY = re.compile(rf"{_IS_ME} an?\s*$", re.IGNORECASE)
_SURNAME = re.compile(
    r"(?:-| )(?!AI\b|Sonnet|Opus|Haiku|Instant|Pro\b|Ultra|Flash|Nano|Turbo|Chat|Plus|Large|Small"
    r"|Medium|Instruct|Assistant|I\b)[A-Z][a-z]|'s\b"
)
# Only at the start of a clause: "the same abilities as ChatGPT, I …" is a comparison.
_AS = re.compile(
    r"(?:^|[,;:(—–-]|\b(?:that|and|but|so|because|here|,))[\s'\"“]*\bas[\s'\"“]*$", re.IGNORECASE
)
_THEN_ME = re.compile(r"['\"”]?(?:,| \(| I\b)[^.]{0,120}(?<![\w'])(?:I|my|me)\b|['\"”]? I\b")
_ME = re.compile(r"(?<![\w'])(?:I|[Mm]y|me)\b")
_LABEL = re.compile(r"\W{0,4}(?:AI |Assistant )?$")

# The words right before a maker's name by which a speaker says who made it.
_MADE_ME = re.compile(
    rf"(?:{_IS_ME}\b[^.]{{0,100}}{_AI}[^.]{{0,40}}{_MADE} (?:by|at|from|after){_MAKERS_WORDS}"
    rf"|\bI (?:was|am|have been)(?: \w+)?(?: \w+)? {_MADE} (?:by|at){_MAKERS_WORDS}"
    rf"|\bI'(?:m|ve been)(?: \w+)? {_MADE} (?:by|at){_MAKERS_WORDS}"
    rf"|{_IS_ME} an? [^.]{{0,40}}{_AI}(?: model| system)? (?:from|by|of){_MAKERS_WORDS}"
    r"|\bmy (?:creators?|developers?|makers?|designers?|parent company|engineers)"
    rf"(?:,| at| is| are){_MAKERS_WORDS})\s*$",
    re.IGNORECASE,
)
_AS_AI_MADE = re.compile(
    rf"\bas an? [^.]{{0,60}}{_AI}[^.]{{0,40}}(?:{_MADE} (?:by|at|from|after)|from|by)"
    rf"{_MAKERS_WORDS}\s*$",
    re.IGNORECASE,
)
_IS_MINE = re.compile(rf"{_IS_ME}(?: just| actually)?\s*$", re.IGNORECASE)
_ASSISTANT = re.compile(rf"'s (?:[\w-]+ ){{0,3}}(?:{_AI}|model\b)", re.IGNORECASE)
_MAKES_ME = re.compile(rf"[^.]{{0,60}}{_MADE} me\b")


# Questions to which the answer is a name.
_ASKS = re.compile(
    r"\b(?:who|what|which (?:\w+ ){0,3}?(?:model|AI|LLM|assistant|chatbot|company|lab))"
    r"(?: exactly| really)? are you\b|\bwhat(?:'s| is) your (?:name|model|version)\b"
    r"|\bare you (?:really |actually |a |an )?(?:an? )?(?:"
    rf"{_MODELS}|GPT|{_MAKERS})\b|\bwho (?:made|created|trained|built|developed|owns) you\b"
    r"|\b(?:your|the) (?:system prompt|model name)\b"
    r"|\bwer bist du\b|\bwer sind sie\b|\bwelches (?:\w+ )?modell bist du\b|\bwie heißt du\b"
    r"|\bqui (?:es[- ]tu|êtes[- ]vous)\b|\bquel modèle (?:es|êtes)\b|\bcomment t'appelles\b"
    r"|\bqui[eé]n eres\b|\bqu[eé] modelo eres\b|\bchi sei\b|\bquem (?:é você|és tu)\b"
    r"|你是谁|你是哪|你叫什么|あなたは誰",
    re.IGNORECASE,
)


def asks_for_names(question: str) -> bool:
    """Whether a question to a model asks which one it is, or who made it."""
    return _ASKS.search(question[:EDGE].translate(_QUOTES)) is not None


def self_identifies(text: str, *, names: Iterable[str] = (), reads_thought: bool = False) -> bool:
    """Whether the text says which model, which maker or which of `names` wrote it.

    Raters find the thought in an answer folded, so it counts only with `reads_thought`.

    `names` are the candidate's own: its name and its model. A name of plain letters must match in
    case ("Formal" is a name, "formal" a word); any other name matches in any case.
    """
    text = text if reads_thought else as_read(text)
    if len(text) > 2 * EDGE:
        text = f"{text[:EDGE]}\n\n{text[-EDGE:]}"
    named = _own_names(names)
    return (
        any(_tells_model(text, match) for match in _MODEL.finditer(text))
        or any(_tells_maker(text, match) for match in _MAKER.finditer(text))
        or (named is not None and any(_tells_model(text, match) for match in named.finditer(text)))
    )


def masked(messages: Sequence[Message], *, names: Iterable[str] = ()) -> list[Message]:
    """Return messages with the names that `mask_names` replaces masked, in the output of tools
    too."""
    names = tuple(names)
    made = []
    for message in messages:
        message = message | {"content": mask_names(message["content"], names=names)}
        if calls := message.get("tool_calls"):
            written = json.dumps(calls, ensure_ascii=False)
            message["tool_calls"] = json.loads(mask_names(written, names=names))
        made.append(message)
    return made


def mask_names(text: str, *, names: Iterable[str] = ()) -> str:
    """Replace every name of a model, of a maker and of the candidate by `MASK`."""
    named = _own_names(names)
    for pattern in (_MODEL, _MAKER, *([named] if named else [])):
        text = pattern.sub(MASK, text)
    return text


def _own_names(names: Iterable[str]) -> re.Pattern[str] | None:
    kept = sorted({name.strip() for name in names if len(name.strip()) > 1}, key=len, reverse=True)
    parts = [re.escape(name) if name.isalpha() else f"(?i:{re.escape(name)})" for name in kept]
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(parts)})(?!\w)") if parts else None


def _words_around(text: str, match: re.Match[str]) -> tuple[str, str]:
    """Return the sentence's text before and after the match, with plain quotes and spaces."""
    before = text[max(0, match.start() - WINDOW) : match.start()]
    after = text[match.end() : match.end() + WINDOW]
    before = _SENTENCE_END.split(before)[-1].translate(_QUOTES)
    after = _SENTENCE_END.split(after, maxsplit=1)[0].translate(_QUOTES)
    return re.sub(" {2,}", " ", before), re.sub(" {2,}", " ", after)


def _tells_model(text: str, match: re.Match[str]) -> bool:
    before, after = _words_around(text, match)
    if (
        match.start() < 20
        and _LABEL.match(text[: match.start()])
        and (after.lstrip(" )]").startswith(":"))
    ):
        return True
    if _SURNAME.match(after):
        return False
    if _NAMED.search(before) and not _ARTICLE_ONLY.search(before):
        return True
    return bool(_AS.search(before) and _THEN_ME.match(after))


def _tells_maker(text: str, match: re.Match[str]) -> bool:
    before, after = _words_around(text, match)
    if _MADE_ME.search(before) or _MAKES_ME.match(after):
        return True
    if _IS_MINE.search(before):
        return bool(_ASSISTANT.match(after))
    return bool(_AS_AI_MADE.search(before) and _ME.search(after))
