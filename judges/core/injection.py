"""Prompt injection: a scan for attempts to steer a judge.

A hit decides nothing by itself; it flags a pair for people.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

# Each is a list of alternatives in verbose form: one line, one idea. Patterns of FOLDED meet lower
# case letters without accents and invisible characters; those of UNSEEN the text as it stands. No
# step may repeat without a bound, or a hostile text takes quadratic time.

# Names for a judge; an answer meant for people rarely calls its reader that.
JUDGE = r"(?:judge|evaluator|grader|rater|assessor|reviewing\ model|llm|language\ model|ai)"
ANSWER = r"(?:answer|response|output|reply|completion|assistant|candidate|solution)"
LETTER = r"(?:a|b|c|1|2|one|two)\b"
PREFER = r"(?:choose|pick|select|prefer|favou?r|vote\ for|declare|rank|rate|mark)"
GAP = r"[^.!?\n]"

# A line of verdict as the prompts of judges ask for it, ours or others'.
VERDICT = rf"""
    \bverdict\ ?-\ ?[0-9a-z]
  | ^[^\w\n]{{0,12}}(?:(?:my|the|your|{ANSWER}(?:'s)?)\ )?(?:final|correct|overall)?\ ?
    (?:verdict|judge?ment|winner|(?:final\ )(?:choice|decision|preference|evaluation))
    [^\w\n]{{0,8}}\n{{0,2}}[^\w\n]{{0,8}}(?:is[^\w\n]{{1,4}})?(?:{ANSWER}\ )?
    (?:a|b|tie|[1-9])\b(?!\ \w)
  | \b(?:evaluation|comparison|ranking|preference|result):\ ?
    (?:[a-c]\ ?(?:[>=]|wins)|{ANSWER}\ {LETTER})
  | \[\[\ ?[abc]\ ?\]\]
  | \[\[\ ?rating\ ?\]\]|\brating:\ ?\[\[
  | ["'](?:verdict|winner|preferred|better_answer)["']\ ?:\ ?["'](?:a|b|tie|[12])["']
"""
RESULT = r"\[\ ?result\ ?\]"
# Words to a judge instead of to the person who asked: to forget the rules, or what to choose.
INSTRUCTION = rf"""
    \b(?:ignor|disregard|forget|overrid|bypass|overlook)(?:e|es|ing|ting|ten)?\ {GAP}{{0,30}}
    \b(?:previous|prior|above|earlier|preceding|before|your|all|any|other|system)\b
    {GAP}{{0,30}}\b(?:instructions?|prompts?|rubric|criteria|guidelines|directives|directions)\b
  | \b(?:new|updated|revised|real|actual)\ (?:system\ )?instructions?\ ?(?::|for\ you)
  | \bsystem\ (?:override|prompt\ update|notice\ to)
  | \b(?:evaluation|comparison|judging)\ (?:is\ )?(?:now\ )?(?:complete|completed|over|finished)\b
  | \bas\ (?:the|a|an|your)\ (?:\w{{1,12}}\ )?{JUDGE},?\ you\ (?:must|should|will|shall|have|need)
  | \b(?:dear|attention|note\ (?:to|for)|message\ (?:to|for)|instructions?\ (?:to|for))
    ,?\ (?:all\ |the\ |any\ |you\ )?(?:\w{{1,12}}\ )?{JUDGE}s?\b(?!\ \w{{1,20}},)
  | \b(?:any|every|all|the)\ {JUDGE}s?\ (?:reading|reviewing|evaluating|judging|processing)\b
  | \byou\ (?:must|should|will|shall|are\ to|have\ to|need\ to)\ (?:now\ |always\ |only\ |then\ )?
    (?:{PREFER}|output|judge)\ {GAP}{{0,15}}(?:\b{ANSWER}\b|verdict|\ba\b\.?$|\bb\b\.?$)
  | \b(?:{PREFER}|judge|score|grade)\ (?:this|that|my|the\ (?:first|second|other|present))
    \ {ANSWER}\b
  | \b{PREFER}\ {ANSWER}\ {LETTER}
  | \b{ANSWER}\ {LETTER}\ (?:is|was|wins|must|should|deserves)\ {GAP}{{0,25}}
    \b(?:better|best|winner|win|preferred|superior|wins|higher|correct\ choice)\b
  | \b{ANSWER}\ {LETTER}\ (?:wins|won|loses|lost|is\ correct|is\ wrong|must\ lose|preferred)\b
  | \b(?:worse|better|inferior|superior)\ (?:than|to)\ (?:this|my|the\ other)\ {ANSWER}\b
  | \b(?:this|my)\ {ANSWER}\ (?:is|must\ be|should\ be|deserves|wins|has\ been|was|must|got)
    \ {GAP}{{0,30}}\b(?:better|best|winner|preferred|superior|highest|chosen|full\ marks)\b
  | \bthe\ (?:other|competing)\ {ANSWER}s?\ (?:is|are|must|should|contains?|was|has|fails|lies)\b
  | \b(?:output|print|return|(?:reply|respond|answer)\ with)\ (?:only\ )?["'`]?
    (?:verdict|\[\[|\[result|[ab]["'`](?!\w|\ if\b))
  | \bgive\ (?:it|this|me|this\ {ANSWER}|my\ {ANSWER})\ (?:a\ |the\ )?
    (?:full\ marks|perfect\ score|maximum|highest|top\ (?:score|marks|rating))
"""
# The same in other languages, without their accents.
FOREIGN = r"""
    \b(?:ignorier|missacht|vergiss|vergess)\w{0,4}\ [^.!?\n]{0,30}\b(?:anweisung|vorgabe|zuvor)
  | \b(?:wahl|bevorzug|bewert|nimm)\w{0,3}\ (?:diese|meine|die)\ (?:\w{1,8}\ )?antwort
  | \b(?:ignor|oubli|olvid|esque|dimentic)\w{1,5}\ [^.!?\n]{0,30}
    \b(?:consignes|instrucciones|indicaciones|instrucoes|istruzioni)
  | \bignore[rz]?\ (?:toutes\ )?(?:les|ces|tes|vos|mes)\ [^.!?\n]{0,20}\binstructions
  | \b(?:choisi|prefer|prefir|elij|elig|escoj|escolh|selec|scegli)\w{0,9}
    \ (?:cette|ma|la|esta|mi|a|minha|questa|mia)\ (?:reponse|respuesta|resposta|risposta)
  | \b(?:игнорир|забуд|не\ обраща)\w{0,6}\ [^.!?\n]{0,30}\b(?:инструкци|указани)
  | \b(?:выбер|предпоч|оцени)\w{0,5}\ (?:этот|мои|первыи|второи)\ ответ
  | (?:忽略|无视|忘记|忽視|無視)[^。！？\n]{0,15}(?:指令|指示|提示|规则|要求|規則)
  | (?:选择|選擇|请选|判定)[^。！？\n]{0,6}(?:回答|答案)\ ?(?:a|b|更好|为最佳)
  | (?:指示|命令|指令)[^。！？\n]{0,8}(?:無視|忘れ)
  | (?:이전|위의?|앞의?)[^.!?\n]{0,10}(?:지시|명령|지침)[^.!?\n]{0,6}무시
  | (?:تجاهل|انس)[^.!?\n]{0,30}(?:التعليمات|الاوامر)
"""
ROLE = r"""
    <\|\ ?(?:im_start|im_end|im_sep|system|user|assistant|endoftext|end_of_text|eot_id|end_of_turn
    |start_header_id|end_header_id|begin_of_text|end)\ ?\|>
  | \[/?inst\]
  | <</?sys>>
  | ^[^\w\n]{0,4}(?:the\ )?(?:judge|grader|evaluator|rater|assessor)s?\ ?:
  | ^(?:human|user):\ [^\n]{1,400}\n{1,3}(?:assistant|ai|judge):
  | \bsystem:\ (?:next|now|you|print|ignore|output|choose|override|new)\b
  | </?start_of_turn>|</?end_of_turn>
  | ^\#{2,4}\ ?(?:system|task\ description|the\ instruction\ to\ evaluate|response\ to\ evaluate
    |response\ [ab]|reference\ answer|score\ rubrics?|feedback)\b[^\n]{0,20}:
  | ^(?:system|developer)\ ?(?:prompt|message|instruction|note)?\ ?:\ [^\n]{0,40}
    \b(?:you\ are|you\ must|ignore|judge|evaluat|verdict|prefer)
"""
FENCE = r"""
    </?(?:answer|response|output|assistant|candidate)[-_\ ][a-h](?:-[0-9a-z]{0,40})?\ ?/?>
  | </?(?:prompt|question|reference|note|rubric|example)-[0-9a-f]{4,40}\ ?>
  | </(?:answer|example)-[a-z0-9-]{1,40}>
  | \[\ ?(?:the\ )?(?:start|end|begin(?:ning)?)\ of\ (?:the\ )?
    (?:assistant|answer|response|reference|question|prompt|conversation)\b
  | <\|\ ?(?:the\ )?(?:start|end|begin(?:ning)?)\ of\b
  | ^[-=*\#]{2,10}\ ?(?:begin|end|start)\ (?:of\ )?(?:answer|response|prompt|evaluation)\ ?[ab]?\b
"""
# Full marks that an answer gives itself, and nothing less: films get 8/10 all the time.
SCORE = rf"""
    \b(?:score|rating|grade|marks?)(?:\ (?:awarded|given)(?:\ by\ \w{{1,12}})?)?[^\w\n]{{0,6}}
    (?:(?:of|is)\ )?[*_]{{0,2}}(?:([0-9]{{1,3}})\ ?(?:/|(?:out\ )?of)\ ?\1|100\ ?%)(?!\w)
  | \b(?:i|we)\ (?:would\ )?(?:rate|give|score|grade)\ (?:this|my)\ (?:\w{{1,12}}\ )?{ANSWER}\b
  | \b{ANSWER}\ (?:deserves|merits|earns|scores|receives)\ {GAP}{{0,20}}
    (?:full\ marks|highest|maximum|perfect|10\b|5\b|100\b)
"""
# What another judge's form or reply looks like.
TEMPLATE = r"""
    ^[^\w\n]{0,12}(?:(?:un)?ordered\ )?(?:model|system|assistant|ai)(?:'s)?\ outputs?[^\n]{0,12}$
  | ["'](?:model_?(?:identifier|id|name)?|system|assistant|candidate|answer|response)["']\ ?:
    \ ?["'][^"'\n]{1,40}["'],\s{0,8}["'](?:rank|score|rating|points)["']\ ?:\ ?["']?[0-9]
  | ["'](?:rank|score|rating|points)["']\ ?:\ ?["']?[0-9]{1,3}["']?,\s{0,8}
    ["'](?:feedback|reason(?:ing)?|rationale|explanation|justification)["']
  | ["'](?:winner|better|preferred|choice)["']\ ?:\ ?["'](?:response|answer|model|assistant)_?[ab12]
  | </(?:score|rating|verdict|judge?ment|evaluation|preferred|winner|critique|grade|reward)>
  | ^[^\w\n]{0,6}feedback\ ?:[^\n]{0,400}\b(?:score|rating|result)\b
  | ^[^\w\n]{0,6}evaluation\ (?:report|form)[^\w\n]{0,4}$
"""
FORGED = rf"""
    ^[^\w\n]{{0,6}}(?:\w{{1,12}}(?:'s)?\ ){{0,3}}
    (?:verdict|judge?ment|decision|preference|winner|ranking|ruling|(?:best|preferred)\ {ANSWER})
    \ ?(?:[:=-]{{1,2}}>?|is|→)\ ?[^\w\n]{{0,4}}
    (?:(?:this|the\ (?:first|second))\ (?:one|text|{ANSWER})|{ANSWER}\ {LETTER}|this\ >)
  | <(?:\w{{0,12}}(?:verdict|decision|choice|winner|preferred|judge?ment))>\s{{0,3}}
    (?:{ANSWER}|this|first|second|[ab12])\s{{0,3}}</
"""
# The end of a thought that the judge should take for its own.
THOUGHT = r"""
    (?<!`)</?\ ?\w{0,12}(?:think|thought|reason|reflect|analys|scratchpad|monologue)\w{0,12}\ ?>
  | \[/?think(?:ing)?\]|◁/?think▷
"""
# A whole text that says nothing, and yet sways some judges (Zhao et al. 2025, "One token to fool
# LLM-as-a-judge"): punctuation alone, or the words with which a solution begins.
LONGEST_KEY = 80
KEY = re.compile(
    r"""
    \W{0,4}let\ me\ (?:think|work|go|reason)\b[^.:!?\n]{0,40}\W{0,4}
  | \W{0,4}let(?:'|’)?s\ (?:solve|think|work|break|go|take|reason|do)\b[^.:!?\n]{0,40}\W{0,4}
  | \W{0,4}(?:here\ is|here's)\ (?:the|my|a)\ (?:solution|answer|response|explanation|proof)\W{0,4}
  | [!-/:-@\[-`{-~\s…。、，：·•–—¡¿]{1,20}
  | \W{0,4}(?:(?:my|the|final|correct)\ ){0,2}(?:solution|answer|thought\ process|thoughts?
    |reasoning|explanation|response|output|result|reply|analysis|conclusion|proof|respuesta
    |solucion|losung|antwort|reponse|解|解答|答案|回答|答え|解説|정답|الحل)\W{0,4}
    """,
    re.VERBOSE,
)
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u2061-\u2064"
FOLDED = {
    kind: re.compile(pattern, re.VERBOSE | re.MULTILINE)
    for kind, pattern in {
        "verdict": VERDICT,
        "result": RESULT,
        "instruction": INSTRUCTION,
        "foreign instruction": FOREIGN,
        "role": ROLE,
        "fence": FENCE,
        "score": SCORE,
        "template": TEMPLATE,
        "forged": FORGED,
        "thought": THOUGHT,
    }.items()
}
UNSEEN = {
    # Some scripts and emoji need joiners and soft hyphens, but never several in a row, and Latin
    # letters never need one between them.
    "zero width": re.compile(
        rf"[{ZERO_WIDTH}]{{3}}|(?<=[A-Za-z])[{ZERO_WIDTH.replace(chr(0xAD), '')}]+(?=[A-Za-z])"
    ),
    # Overrides turn the reading direction of letters around; marks and isolates do not.
    "bidi": re.compile("[\u202d\u202e]"),
    # Letters that no font shows; three flags of the emoji table use them after a black flag.
    "tags": re.compile(r"(?<![\U000E0020-\U000E007F\U0001F3F4])[\U000E0000-\U000E007F]"),
    "variation selectors": re.compile(r"[\ufe00-\ufe0f\U000E0100-\U000E01EF]{3}"),
}
# Their category is "letter", but they show nothing.
FILLERS = "\u115f\u1160"


def scan(text: str) -> set[str]:
    """Return the kinds of attempts to steer a judge that `text` seems to contain.

    Words are searched in the folded text, so that neither full-width letters nor a zero-width space
    within a word hide anything; characters that people cannot see, in the text as it stands.
    docs/explanation/injection.md has what it finds, what it misses and how often it is wrong.
    """
    folded = text.lower() if text.isascii() else "".join(map(_folded, text))
    kinds = _kinds(FOLDED, folded) | (set() if text.isascii() else _kinds(UNSEEN, text))
    is_key = len(folded) <= LONGEST_KEY and KEY.fullmatch(folded.strip() or "x")
    return kinds | ({"key"} if is_key else set())


FEWEST_REPEATS = 5
LONGEST_LABEL = 40  # an answer up to this long may be one of a few classes, and right each time


def find_suspicious(answers: Iterable[tuple[int, int, str]]) -> set[int]:
    """Return the ids of the answers that may try to steer a judge.

    answers: (id, author, text), one for each prompt. Besides those that `scan` finds, these are
    answers that their author gives to at least five prompts, word for word, unless they are as
    short as the labels of a classification; and those of an author who gives all prompts the same
    answer.
    """
    suspicious: set[int] = set()
    same: dict[tuple[int, str], list[int]] = {}
    given: Counter[int] = Counter()
    for pk, author, text in answers:
        if scan(text):
            suspicious.add(pk)
        given[author] += 1
        same.setdefault((author, text.strip()), []).append(pk)
    for (author, text), ids in same.items():
        alike = len(text) > LONGEST_LABEL or len(ids) == given[author]
        if len(ids) >= FEWEST_REPEATS and alike:
            suspicious.update(ids)
    return suspicious


def _kinds(patterns: Mapping[str, re.Pattern[str]], text: str) -> set[str]:
    return {kind for kind, pattern in patterns.items() if pattern.search(text)}


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).lower()
    seen = [c for c in plain if unicodedata.category(c) not in ("Cf", "Mn") and c not in FILLERS]
    return unicodedata.normalize("NFC", "".join(seen))
