"""Signals of doubt: words around a verdict because of which it does not count.

A verdict in the form that was asked for, with the right nonce, counts unless something speaks
against it. Words before it may quote it, deny it, or make it an example or depend on something.
Words after it may take it back or call it uncertain, and what they claim of the answers is compared
with it. Most of what they say else, in any language, leaves it as it is, but two kinds of sentence
must be understood: one about another answer alone, and one in which the judge speaks of itself or
of its verdict. Irony is taken at its word. The words are listed in doubts.toml. Texts are in lower
case, without invisible characters.
"""

import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

Kind = Literal["comparison", "tie", "score"]

# Answers that are named stand in texts as one character, which tells their place by the verdict (0
# is the best one, the score that was given, or any in a tie) and which one it is.
PRIVATE = "\ue000-\uefff"
NAME, OTHER_NAME = "[\ue000-\uef00]", "[\ue020-\uef00]"
PERHAPS = "\uefff"  # an "A" that may be the article
BY_PLACE = 32
NAMES = re.compile(NAME)

# Not what strikes out, forbids or points down.
PICTURES = r"(?![❌❎✖✗✘☒⛔🚫👎😂🤣🤔🤷])[←-⇿⌀-➿⬀-⯿\U0001f000-\U0001faff\ufe0f]"
CROSSED_OUT = re.compile(r"~~|[\u0334-\u0338❌❎✖✗✘☒⛔🚫👎😂🤣🤔🤷]|\[\s+\]")
NOUN = (
    r"(?:answer|response|option|candidate|assistant|model|choice|winner|verdict|score|rating|level"
    r"|grade)\b"
)


def name_of(place: int, number: int) -> str:
    """Return the character that stands for an answer at a place by the verdict."""
    return chr(0xE000 + BY_PLACE * min(place, 100) + number % BY_PLACE)


def _place(name: str) -> int:
    """Return the place of a name; what speaks of no named answer speaks of the chosen one."""
    return (ord(name) - 0xE000) // BY_PLACE if name else 0


def _own(names: list[str]) -> list[str]:
    return [name for name in names if not _place(name)]


def _others(names: list[str]) -> list[str]:
    return [name for name in names if _place(name)]


# What models think, or write before their final channel, is not part of the reply.
THOUGHT = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)\s*>"
THOUGHT_ENDS = re.compile(
    rf"</{THOUGHT}|\[/think\]|◁/think▷|<\|channel\|>\s*final\s*<\|message\|>", re.IGNORECASE
)
THOUGHT_BEGINS = re.compile(
    rf"<{THOUGHT}|\[think\]|◁think▷|<\|channel\|>\s*(?:analysis|commentary)\b", re.IGNORECASE
)
END_TOKENS = re.compile(
    r"</s>|<\|[a-z0-9_ ]{1,30}\|>|<｜[^｜<>]{1,30}｜>|<(?:end_of_turn|eos|eot|pad)>|\[/?inst\]",
    re.IGNORECASE,
)
# Where a turn begins that the model made up: with tokens, or with headings for both sides.
NEXT_TURN = re.compile(
    r"<\|(?:im_end|eot_id|end)\|>\s{0,9}<\|(?:im_start|start_header_id|start)\|>"
    r"|<end_of_turn>\s{0,9}<start_of_turn>|</s>\s{0,9}(?:<s>\s{0,9})?\[inst\]|<\|endoftext\|>\s{0,9}\w",
    re.IGNORECASE,
)
ASKS, REPLIES = (
    re.compile(rf"^[#* ]{{0,9}}(?:{who})[* ]{{0,9}}[:：]", re.IGNORECASE | re.MULTILINE)
    for who in (
        "user|human|instruction|用户|ユーザー",
        "assistant|response|judge|助手|アシスタント",
    )
)


def final_text(reply: str) -> str:
    """Return a reply without the model's thinking, and without the tokens that end a turn.

    If the thinking never ends, nothing after it is left.
    """
    text = reply[[0, *(tag.end() for tag in THOUGHT_ENDS.finditer(reply))][-1] :]
    if begun := THOUGHT_BEGINS.search(text):
        text = text[: begun.start()]
    text = text.lstrip()
    if begun := NEXT_TURN.search(text, 1):
        text = text[: begun.start()]
    if (begun := ASKS.search(text, 1)) and REPLIES.search(text, begun.end()):
        text = text[: begun.start()]
    return END_TOKENS.sub("\n", text)


def thinks_on(reply: str) -> bool:
    """Return whether a thought begins that never ends."""
    begun = [tag.start() for tag in THOUGHT_BEGINS.finditer(reply)]
    ended = [tag.end() for tag in THOUGHT_ENDS.finditer(reply)]
    return bool(begun) and begun[-1] >= max(ended, default=0)


LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _any(*keys: str) -> str:
    """Return a regular expression for the words under `keys` of doubts.toml."""
    words = " ".join(LISTS[key].get("words", "") for key in keys).split()
    signs = " ".join(LISTS[key].get("signs", "") for key in keys).split()
    patterns = [rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", *signs]
    return "|".join(patterns).replace("NAME", NAME).replace("*", r"\w*").replace("_", "[ ]")


def _words(*keys: str) -> re.Pattern[str]:
    return re.compile(_any(*keys))


RETRACTS, UNCERTAIN, EVEN = _words("retracts"), _words("uncertain"), _words("even")
TURNS_AROUND = re.compile(rf"\W*(?:{_any('turns_around')})")
CONDITION, COUNTERFACTUAL = _words("condition"), _words("counterfactual")
OF_ITSELF = re.compile(
    r"\b(?:i|i'[a-z]+|verdict|decision|ruling|judge?ment|line|vote)\b"
    r"|\A\W*(?:th(?:is|at)\b(?! said)|\w+ (?:this|that|it)\W*\Z)"
)
CONFIRMS, DENIED = _words("confirms", "good", "better", "best"), _words("denied")
CONFIDENCE = re.compile(r"\bconfiden\w+\W[^.\n]*")
LITTLE_CONFIDENCE = re.compile(
    r"(?:confiden\w+|certain\w*)(?:[^.\w]| (?:score|level|is|of|in this|very|rather)\b){0,9}?"
    r"(?:low|none|zero|0?\.[0-5]\d*|[0-5]?\d(?:\.\d+)?\s?%|[0-2]\s?/\s?5|[0-5]\s?/\s?10)"
    r"|\b[0-5]?\d(?:\.\d+)?\s?% (?:sure|certain|confident)"
)
# What speaks to the reader is about no verdict: "if you have more pairs", "would you like ...?"
OF_READER = re.compile(
    r"\b(?:(?:if|should|when) (?:you|there|any\w*|needed|necessary)|let me know|please|feel free)\b"
    r"[^.!?\n]*|\b(?:falls|wenn|sollten) sie\b[^.!?\n]*"
    r"|\b(?:would|do|shall) (?:you|i)\b[^.!?\n]*\?"
    r"|\b(?:si|se) (?:vous|usted|necesita|tiene|desea|quiere|precisar|tiver|ha )[^.!?\n]*"
    r"|(?:如果|若)(?:您|你|还|有|需)[^。！？\n]*|\bas (?:asked|requested|required|well|such)\b"
    r"|[^.!?\n]*\b(?:anything else|algo más|sonst noch|autre chose)\b[^.!\n]*"
)
FILLING = re.compile(rf"{NOUN}|{_any('filling')}|[\W_]")
DENIALS = _words("denials")
CONCEDES, MILD = _words("concedes"), _words("mild")
ADMITS = _words("admits", "worse", "good", "turn")
SENTENCES = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!ex)(?<!vs)\.(?!\w)|[!。！]|(?<=\?)|\s[–—-]+\s")
REFERS = re.compile(
    r"\W*(?:(?:\w+ly|and|so|because|since|as|which)[\s,]+)*(?:it|its|this|that|i|which)\b"
)
ENDS_IN_OTHER = re.compile(
    rf"(?:[:=]|\b(?:is|was|it's|é|es|est|ist|correct|right|real|actual|true)\b|是|は)[\s*_\"'(]*"
    rf"{OTHER_NAME}(?:です|でした)?[^\w{PRIVATE}]*\Z|{OTHER_NAME} (?:it is|then)\W*\Z"
)
DESCRIBED = re.compile(
    r"\bthe (?:more \w+|less \w+|other|opposite|(?!better|stronger)\w+er) (?:answer|response|one"
    r"|text|option|reply)\b"
)
# The first of these that fits is meant.
EVENTS = re.compile(
    rf"(?P<name>{NAME})|(?P<stop>[,;:(])|(?P<beat>>)|"
    + "|".join(
        f"(?P<{key}>{_any(key)})"
        for key in (
            *("chosen", "beats", "beaten", "blames", "best", "even", "worse", "turn", "mends"),
            *("better", "good", "over", "more"),
        )
    )
)
# Words that change what comes soon after them: the next quality, or that the next name is compared.
CHANGES = {"turn": "turn", "mends": "mends", "more": "more"}
CHANGES |= dict.fromkeys(("over", "beats", "beat", "beaten"), "compared")
TURNED = {"worse": "not worse", "even": "", "best": "not best"}
LESS = ("less", "least", "fewer", "meno", "moins", "menos", "weniger")
BY_QUALITY = {"best": "beats", "better": "beats", "worse": "beaten", "not best": "beaten"}
WEIGHTS = {"best": 4, "better": 2, "not worse": 2, "good": 1, "lacks": -1, "worse": -2}
WEIGHTS["not best"] = -2
NEAR, FAR = {"more": 15}, 35  # characters between such a word and what it changes
CONCEDES_FIRST = re.compile(
    r"(\W*(?:al|even )?(?:though|while|whereas|despite|granted|even if)\b[^,]*),(.*)"
    r"|(.*?)(?:\bbut\b|\byet\b|但)(.*)"
)
CONCEDES_LAST = re.compile(r"(.*?)\b(?:al|even )?(?:though|albeit|despite|even if)\b(.*)")
UNLIKE = re.compile(
    r"\b(?:unlike|(?:in contrast|as opposed|contrary|compared) (?:to|with)|im gegensatz zu"
    rf"|a diferencia de|contrairement à|ao contrário de)\W{{1,3}}(?:(?:that|those) of )?({NAME})"
)


@dataclass(frozen=True)
class _Claim:
    """What words say of `name` ("" if they name none), or of `name` in comparison with `other`."""

    quality: str
    name: str
    other: str = ""

    @property
    def is_praise(self) -> bool:
        return self.quality in ("best", "better", "beats")

    @property
    def differs(self) -> bool:
        """Whether it claims another order than the verdict."""
        if not self.other:
            return self.quality == "best" and _place(self.name) > 0
        better, worse = (self.name, self.other)[:: 1 if self.quality == "beats" else -1]
        return bool(self.quality) and _place(better) >= _place(worse)


@dataclass
class _Clause:
    """A clause as read so far: what it claims, and what it speaks of.

    `waiting` are qualities that wait for a name, `changed` is where words ended that change what
    follows them.
    """

    subject: str
    claims: list[_Claim] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    changed: dict[str, int] = field(default_factory=dict)
    quality: str = ""
    compared: str = ""

    def read(self, event: re.Match[str]) -> None:
        what = event.lastgroup or ""
        if what == "stop":
            self.changed.clear()
            self.waiting = [quality for quality in self.waiting if quality != "chosen"]
        elif what in CHANGES:
            self.read_change(what, event.end())
        elif what == "name":
            self.read_name(event[0], self.changes_near(event))
        elif what == "blames":
            self.waiting.append("worse")
        else:
            self.read_quality(what, self.changes_near(event))
            if event[0] in LESS:
                self.changed["turn"] = event.end()

    def changes_near(self, event: re.Match[str]) -> list[str]:
        distances = {each: event.start() - end for each, end in self.changed.items()}
        return [each for each, distance in distances.items() if distance < NEAR.get(each, FAR)]

    def read_change(self, what: str, end: int) -> None:
        self.changed[CHANGES[what]] = end
        if what == "turn":
            self.claims.append(_Claim("lacks", self.subject))
        if CHANGES[what] == "compared":
            words = {"over": BY_QUALITY.get(self.quality, ""), "beat": "beats"}
            self.compared = words.get(what, what)

    def read_name(self, name: str, near: list[str]) -> None:
        if "compared" in near:
            before = _Claim(self.quality, self.subject)
            self.claims = [claim for claim in self.claims if claim != before]
            self.claims.append(_Claim(self.compared, self.subject, name))
            del self.changed["compared"]
            return
        self.subject = name
        self.claims += [_Claim("best" if each == "chosen" else each, name) for each in self.waiting]
        self.waiting = []

    def read_quality(self, quality: str, near: list[str]) -> None:
        self.quality = quality
        if "turn" in near or ("mends" in near and quality == "worse"):
            self.quality = TURNED.get(quality, "worse")
        elif quality == "good" and "more" in near:
            self.quality = "better"
        if quality == "chosen" or not self.subject:
            self.waiting.append(self.quality)
        else:
            self.claims.append(_Claim(self.quality, self.subject))


def _claims(words: str, subject: str) -> tuple[list[_Claim], str]:
    """Return what a clause claims, and what it speaks of at its end."""
    clause = _Clause(subject)
    for event in EVENTS.finditer(words):
        clause.read(event)
    left = [_Claim(each, clause.subject) for each in clause.waiting if each != "chosen"]
    return clause.claims + left, clause.subject


@dataclass(frozen=True)
class _Statement:
    """What a sentence claims in its main clause, and what it concedes."""

    main: str
    claims: list[_Claim]
    conceded: list[_Claim]
    conceded_names: list[str]
    is_granted: bool  # as a whole, by a "though" at its end

    @property
    def names(self) -> list[str]:
        return NAMES.findall(self.main)

    @property
    def said(self) -> list[_Claim]:
        """All claims that count when a closing is weighed."""
        mild = [
            replace(claim, quality="good") if claim.quality == "better" else claim
            for claim in self.conceded
        ]
        return [] if self.is_granted else [*mild, *self.claims]

    def leads_away(self, sentence: str, names: list[str]) -> bool:
        """Whether it is about another answer alone, and neither blames nor concedes."""
        is_understood = ADMITS.search(sentence) or any(claim.other for claim in self.claims)
        return bool(names) and not _own(names) and not is_understood

    def differs_from(self, kind: Kind) -> bool:
        return self.is_uneven() if kind == "tie" else self.contradicts()

    def is_uneven(self) -> bool:
        """Whether it puts one answer of a tie above the other."""
        claims = [*self.claims, *self.conceded]
        best, worse = (
            {claim.name for claim in claims if claim.quality in qualities} - {""}
            for qualities in (("best", "beats"), ("worse", "beaten"))
        )
        return len(best) == 1 or (len(worse) == 1 and not MILD.search(self.main))

    def contradicts(self) -> bool:
        """Whether it claims of answers what the verdict does not."""
        praised = [one.name for one in self.claims if one.is_praise]
        praised += [one.name for one in self.conceded if one.quality == "best"]
        if any(claim.differs for claim in self.claims):
            return True
        if any(claim.differs for claim in self.conceded) and not _own(self.names):
            return True
        own_is_praised = any(_own(list(filter(None, praised))))
        return self._prefers_other() or (
            not own_is_praised and any(map(self._is_against, self.claims))
        )

    def _is_against(self, claim: _Claim) -> bool:
        if _place(claim.name):
            is_conceding = self.is_granted or CONCEDES.search(self.main)
            return claim.quality == "even" or (claim.quality == "better" and not is_conceding)
        is_blame = claim.quality == "worse" and claim.name and not MILD.search(self.main)
        return bool(is_blame) or claim.quality in ("even", "not best")

    def _prefers_other(self) -> bool:
        """Whether it is like "Although A is longer, B answers the question" below an A."""
        is_about_others = bool(self.names) and not _own(self.names)
        is_blame = any(one.quality in ("worse", "beaten", "lacks") for one in self.claims)
        own_is_best = any(one.quality == "best" and not _place(one.name) for one in self.conceded)
        return is_about_others and bool(_own(self.conceded_names)) and not (is_blame or own_is_best)


def _state(sentence: str, subject: str) -> tuple[_Statement, str]:
    """Return what a sentence states, and what it speaks of at its end."""
    main, conceded, is_granted = sentence, "", False
    if match := CONCEDES_FIRST.match(sentence):
        conceded, main = match[1] or match[3], match[2] or match[4]
    elif match := CONCEDES_LAST.match(sentence):
        main, conceded = match[1], match[2]
        is_granted = not re.search(r"\w", conceded)
    names = [*NAMES.findall(conceded), *(match[1] for match in UNLIKE.finditer(main))]
    before, subject = _claims(conceded, subject)
    claims, subject = _claims(UNLIKE.sub(" ", main), subject)
    return _Statement(UNLIKE.sub(" ", main), claims, before, names, is_granted), subject


def _prefer_other(kind: Kind, claims: list[_Claim], names: list[str]) -> bool:
    """Return whether words about both of two answers say more for the one not chosen."""
    if kind != "comparison":
        return False
    praise = {0: 0, 1: 0}
    for claim in claims:
        if claim.name:
            praise[min(_place(claim.name), 1)] += WEIGHTS.get(claim.quality, 0)
    last = [claim.name for claim in claims if claim.is_praise][-1:]
    return bool(_own(names) and _others(names)) and (praise[1] > praise[0] or bool(_others(last)))


# What makes more or less of the verdict that it follows: "4.5", "A-", "3-4", "B >".
GLUED = re.compile(
    r"[-+±~%^<>=×÷/&]|'\w|(?!\s?\(\d\d0?\s?%)\W*\d|\W*[>=]|\s*[/+&]|[^\w.]*\?"
    r"|[\s*_.,]*(?:or|oder|ou|o|and|und|et)\b"
)
LOSER = re.compile(rf"\A[ *_`]*>{{1,3}}[ *_`]{{0,3}}{OTHER_NAME}")
BARE_WORD = re.compile(r"[\s*_`]*\s[\s*_`]*(?=\w)|(?=分)")
# What may follow a verdict without a stop; "4 errors" and "a tough call" may not.
REASON = r"because|since|due to|given|based on|for|with|weil|da|denn|car|parce|porque|perché"
AMOUNT = re.compile(rf"\W*(?:{REASON}|points?\b|pts\b|stars?\b|分)")
GOES_ON = re.compile(
    rf"\W*(?:\w+ly\W+)?(?:{REASON}|as|over|by (?:an?|far|its)|on|is|was|has|had|\w+[a-rt-z]s|\w+ed"
    r"|between)\b|\W*\w+ly\W*\Z"
)
TELLS, ADJUSTS = _words("tells"), _words("adjusts")
# How a sentence below a score names one: "the level should be 3", "a 3", "3 points".
SCORE_NAMED = re.compile(
    rf"(?:\b(?:{NOUN}|mark|rated?|rates|gives?|gave|deserves?|earns?|be|is|was|it|to|an?|than|mean"
    r"|eine?|une?|una|um)|[:=])"
    rf"\W{{0,3}}(?:of |as |an? )?{OTHER_NAME}|{OTHER_NAME}\W{{0,3}}(?:points|stars)"
    rf"|\A\W*{OTHER_NAME} (?:would be|seems|is|fits)\b"
)
LONGEST = 1_000
FEW = 3  # words of a sentence that needs no subject


def doubt_after(kind: Kind, words: str) -> bool:
    """Return whether the words after a verdict put it in doubt: the rest of its line, and the lines
    below it. Names of answers are written as `name_of` gives them."""
    lines = words.split("\n")
    if len(words) > LONGEST or _tail_doubts(kind, lines[0]):
        return True
    subject = "" if kind == "tie" else name_of(0, 0)
    said: list[_Claim] = []
    for place, line in enumerate(lines):
        for sentence in SENTENCES.split(OF_READER.sub(_unless_named, line)):
            names, rest = NAMES.findall(sentence), _rest(sentence)
            if _is_doubtful(kind, sentence, names, rest):
                return True
            if kind == "score" or (not names and not rest):
                continue
            speaks_on = REFERS.match(sentence) or (place == 0 if names else len(rest) <= FEW)
            statement, subject = _state(sentence, subject if speaks_on else "")
            if statement.differs_from(kind) or (place and statement.leads_away(sentence, names)):
                return True
            said += statement.said
    return _prefer_other(kind, said, NAMES.findall("".join(lines[1:])))


def _unless_named(courtesy: re.Match[str]) -> str:
    return courtesy[0] if NAMES.search(courtesy[0]) else " "


def _rest(sentence: str) -> list[str]:
    """Return the words of a sentence that add something to the names in it."""
    return FILLING.sub(" ", NAMES.sub(" ", sentence)).split()


def _tail_doubts(kind: Kind, tail: str) -> bool:
    """Whether words in the verdict's line change it, or name another one without comparing it."""
    tail = LOSER.sub("", tail) if kind == "comparison" else tail
    goes_on = AMOUNT if kind == "score" else GOES_ON
    first = SENTENCES.split(tail)[0]
    if (
        GLUED.match(tail)
        or CROSSED_OUT.search(tail)
        or CONDITION.search(first)
        or (BARE_WORD.match(tail) and not goes_on.match(tail))
    ):
        return True
    others = _others(NAMES.findall(first))
    if kind == "score":
        return bool(ADJUSTS.search(first) or others)
    claims, _ = _claims(first, name_of(0, 0))
    compared = {name for claim in claims for name in (claim.name, claim.other)}
    return bool(TELLS.search(first)) or not compared.issuperset(others)


def _is_doubtful(kind: Kind, sentence: str, names: list[str], rest: list[str]) -> bool:
    """Whether a sentence takes the verdict back, calls it uncertain, or only names another one."""
    return bool(
        _retracts(sentence)
        or LITTLE_CONFIDENCE.search(sentence)
        or "?" in sentence
        or (CONDITION.search(sentence) and not COUNTERFACTUAL.search(sentence))
        or (
            UNCERTAIN.search(sentence) and not _own(names) and (not names or REFERS.match(sentence))
        )
        or (not names and _names_none_but_doubts(kind, sentence))
        or (kind == "score" and SCORE_NAMED.search(CONFIDENCE.sub("", sentence)))
        or (kind == "comparison" and ENDS_IN_OTHER.search(sentence))
        or _only_names(kind, sentence, names, rest)
    )


def _names_none_but_doubts(kind: Kind, sentence: str) -> bool:
    if OF_ITSELF.search(sentence) and (DENIED.search(sentence) or not CONFIRMS.search(sentence)):
        return True
    return kind == "comparison" and bool(EVEN.search(sentence) or DESCRIBED.search(sentence))


def _only_names(kind: Kind, sentence: str, names: list[str], rest: list[str]) -> bool:
    """Whether a sentence says nothing but another verdict, or but "not", "or" and the like."""
    if kind == "tie":
        rest = [word for word in rest if word not in ("both", "neither", "wrong")]
    if not all(map(DENIALS.fullmatch, rest)):
        return False
    places = [_place(name) for name in names]
    is_chain = "|" in sentence or (">" in sentence and places == sorted(places))
    is_other = len(set(names)) == 1 if kind == "tie" else any(places) and not is_chain
    return bool(rest) or is_other or PERHAPS in sentence


def _retracts(sentence: str) -> bool:
    return bool(RETRACTS.search(sentence) or TURNS_AROUND.match(sentence))


def takes_back(text: str) -> bool:
    """Return whether words between two verdicts say that the second one replaces the first."""
    return any(
        _retracts(sentence)
        for line in text.casefold().split("\n")
        for sentence in SENTENCES.split(line)
    )


SPEAKS_OF = re.compile(rf"{_any('speaks_of')}|\A\W*(?:had|were|should)\b")
COMMITS = re.compile(
    rf"{_any('commits')}|[\u0370-\u1fff\u3040-\ud7ff]"
)  # or it is in another script
DENIES = _words("denies")
COMMANDS = re.compile(
    r"(?:\A|[.!?:,;]\s)\W*(?:please |then |just )?(?:print|write|type|put|use|reply|respond|answer"
    r"|end|finish|output)\b[^.]*\Z"
)
TASK = "(?:prompt|question|pair|task|case|item|comparison|round|criterion|judge|version|scenario)"
OTHER_TASK = re.compile(
    rf"\b(?:first|second|third|next|other|another|\d(?:st|nd|rd|th)) {TASK}\b"
    rf"|(?:\A\W*(?:{TASK}|user|human)|\b{TASK}\s?#?(?:\d+|[a-z]|one|two))\W*:\W*\Z"
    r"|\A\W*(?:for|regarding|concerning|as (?:to|for|regards)|on|in terms of|with (?:respect"
    r"|regard) to)\b(?!.*\b(?:reasons?|balance|above|everything|whole|overall|reflection"
    r"|consideration|second thought|summary|short|its?|me|this|these|that|all)\b).*[:,]\W*\Z"
)
QUOTATION = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」|『[^』]*』")
OPENS_QUOTE = re.compile('["“„«「『]')
OWN_WORDS = re.compile(
    r"(?:(?:my|the|final|is|verdict|decision|conclusion|judge?ment|therefore|so)\b|\W)*"
)
GIVES_REASON = re.compile(r"\W*(?:since|because|as|given|with|while|although)\b")
ENDS = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?](?!\w)|[。！？]")
ENDED = re.compile(r"[.!?。！？|]\W*\Z")
CLAUSES = re.compile(r"[,:;]|\s[–—-]+\s|\b(?:so|thus|therefore|hence|and)\b")


def doubt_before(kind: Kind, words: str, above: str) -> bool:
    """Return whether the words before a verdict in its line, or the line `above` that leads to it,
    leave it in doubt."""
    is_bare = bool(OWN_WORDS.fullmatch(words))
    if len(words) > LONGEST or CROSSED_OUT.search(words):
        return True
    if OPENS_QUOTE.search(QUOTATION.sub("", words)) and not is_bare:
        return True
    leading = ENDS.split(words.replace(PERHAPS, "a").strip())[-1]
    if _leads_astray(leading) or (is_bare and _line_leads_astray(above[-300:])):
        return True
    if NAMES.search(leading) and not _rest(leading):
        return True
    return kind != "score" and _state(leading, "")[0].contradicts()


def _line_leads_astray(line: str) -> bool:
    if line.rstrip(' *_`#"“”').endswith(":"):
        return _leads_astray(ENDS.split(line.strip())[-1])
    return not ENDED.search(line) and bool(SPEAKS_OF.search(line))


def _leads_astray(words: str) -> bool:
    last = CLAUSES.split(words.rstrip(" *_`#\"'“”:([|"))[-1]
    is_empty = not re.search(r"[^\W\d_]{2}", words)
    leads = is_empty or COMMITS.search(words) or GIVES_REASON.match(words)
    return bool(
        not (leads or any(claim.is_praise for claim in _state(words, "")[0].claims))
        or SPEAKS_OF.search(words)
        or COMMANDS.search(words)
        or OTHER_TASK.search(words)
        or (DENIES.search(last) and not GIVES_REASON.match(last))
    )


# In the first words of a reply, with straight apostrophes.
REFUSALS = re.compile(
    r"\b(?:i|we)(?: can't| cannot| can not| won't| will not| am unable to|'m unable to"
    r"|'re unable to|'m not able to| am not able to| must decline to| have to decline| decline to"
    r"|'d rather not| am not comfortable|'m not comfortable| do not feel comfortable"
    r"| don't feel comfortable| must refuse to| refuse to)(?: in good conscience)? (?:assist|assess"
    r"|help|comply|judg|compar|evaluat|provid|do that|do this|rat|engag|continu|answer|fulfil"
    r"|discuss"
    r"|choos|participat|respond|proceed|process|complet|grad|score)|\b(?:i must (?:\w+ )?decline"
    r"|i (?:have to|need to) decline|i won't be able to|i'm unable to take"
    r"|i'm not able to (?:provide|take)|(?:isn't|is not) something (?:that )?i (?:can"
    r"|am able to))\b|\bas an ai\b[^.]{0,40}\bi (?:can't|cannot|am unable|am not able)\b"
    r"|\b(?:against my (?:guidelines|policy|policies)|violates? (?:my|our|the) (?:\w+ )?polic)"
    r"|\bich (?:kann|möchte|darf|werde)\b.{0,60}\bnicht\b|\bich bin nicht in der lage\b"
    r"|\bkann ich\b.{0,60}\bnicht\b|\b(?:jag|jeg) kan\b.{0,20}\b(?:inte"
    r"|ikke) (?:bedöma|jämföra|hjälpa|vurdere|bedømme|sammenligne|hjelpe|hjælpe)"
    r"|\ben voi (?:arvioida|vertailla|auttaa)|\b(?:nemohu|nemůžu)\b.{0,40}\b(?:hodnotit|porovn"
    r"|pomoc)|\bnem tudom (?:értékelni|összehasonlítani)|\bnu pot (?:evalua|compara|ajuta)"
    r"|\bδεν μπορώ να (?:αξιολογ|συγκρίν|βοηθ)|\bkhông thể (?:đánh giá|so sánh|giúp|hỗ trợ)"
    r"|\btidak (?:dapat|bisa) (?:menilai|membandingkan|membantu)|मूल्यांकन नहीं कर सकत"
    r"|तुलना नहीं कर सकत|ไม่สามารถ(?:ประเมิน|เปรียบเทียบ|ช่วย)|\bне (?:можу|буду) (?:оцін|порівн"
    r"|допом)|(?:איני|אינני|אני לא) (?:יכול|יכולה) (?:להעריך|להשוות|לעזור|לסייע)|\bje (?:ne (?:peux"
    r"|suis|saurais)|refuse)\b.{0,30}\b(?:aider|évaluer|juger|comparer|répondre|mesure|noter"
    r"|traiter)|\b(?:no (?:puedo|podemos)|no me es posible) (?:ayud|evalu|juzg|compar|respond|asist"
    r"|cumpl|proce)|\b(?:não posso|não consigo|não me é possível) (?:ajud|avali|julg|compar|respond"
    r"|cumpr|process)|\b(?:non posso|non sono in grado di) (?:aiut|valut|giudic|confront|rispond"
    r"|soddisf|elabor)|\bik kan\b.{0,40}\bniet (?:help|beoordel|vergelijk|beantwoord)"
    r"|\bnie mogę (?:pomóc|ocenić|porównać|odpowiedzieć)|\b(?:yardımcı olamam|değerlendiremem"
    r"|karşılaştıramam)|\bя не (?:могу|буду) (?:помо|оцен|суди|сравн|ответ|выполн)|(?:无法|無法"
    r"|不能|不便)(?:协助|協助|帮助|幫助|评判|評判|评价|評價|评估|評估|比较|比較|回答|满足|滿足|提供"
    r"|对此|對此|对.{0,12}(?:评|判断|比较))|お手伝いできません|お答えできません|評価できません|お応えできません"
    r"|対応できません|比較できません|(?:評価|比較|回答|判断|対応)することはできません"
    r"|도와드릴 수 없|평가할 수 없|답변(?:을|할| ?드릴) 수 없|비교할 수 없|لا (?:أستطيع"
    r"|يمكنني) (?:المساعدة|مساعدتك|تقييم|مقارنة|الإجابة)"
)
