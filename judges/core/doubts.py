"""Words around a verdict: do they leave it certain?

No list of the ways to take a verdict back could be complete. So a sentence beside or below a
verdict must name the chosen answer (written `OWN`) without blame, or blame another (`OTHER`); once
one does, those after it need only not contradict it. Courtesies aside, anything else makes the
verdict unreadable, and the judge is asked once more. Irony is taken at its word. Texts are in lower
case, without invisible characters.
"""

import re
from typing import Literal

Kind = Literal["choice", "tie", "order", "score", "best", "worst"]
OWN, OTHER = "§", "¤"  # stand for the answers wherever they are named

# Not what strikes out, forbids or points down.
PICTURES = r"(?![❌❎✖✗✘☒⛔🚫👎😂🤣🤔🤷])[←-⇿⌀-➿⬀-⯿\U0001f000-\U0001faff\ufe0f]"
# A box that is not ticked is no decoration, either.
MARKS = r"(?!\[\s*\])[\s*_`•‣◦▪·#\"'“”„‟‘’‚‛«»‹›()\[\]{}|\\.,:;!…—–>-]"
DECORATION = re.compile(rf"(?:{MARKS}|{PICTURES})*")
NOUN = (
    r"(?:answer|response|option|candidate|assistant|model|choice|winner|verdict|score|rating|level"
    r"|grade)\b"
)

# -- What is no part of a reply --------------------------------------------------------------------

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
    re.compile(rf"^[#* ]{{0,9}}(?:{who})[* ]{{0,9}}:", re.IGNORECASE | re.MULTILINE)
    for who in ("user|human|instruction", "assistant|response|judge")
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


# -- What words say of an answer -------------------------------------------------------------------

# In these lists "*" is any ending, "_" a space.
BETTER = r"""
better best superior* prefer* win wins won winn* outperform* surpass* beats? excels?
exceeds_expectations edges (?:the|an|slight)_edge(?!_case) deserves? earns? ahead
(?:rank|plac)\w+_first comes_out_(?:first|ahead) (?:rank|scor|rat)\w+_higher higher_quality
more(?=\W*(?:,|\Z)) cho(?:ose|oses|se|sen) pick* select* recommend(?:s|ed)? favou?r*
(?:strong|clear|rich|deep|saf|full|nic|clean|tight|sharp|smooth|warm|kind|neat|crisp)(?:er|est)
(?:eas|friendl)ier clos(?:er|est) improve* enhanc* go(?:es)?_(?:further|beyond) shin(?:es|ed)
stands?_out nails the_only_(?:one|answer|response)
"""
GOOD = r"""
good reasonabl* great(?:er)? (?:simpl|short|fast|wid|broad)er excellen* outstanding exemplary
exceptional* perfect* ideal* impressive commendable solid* nice* fine strong* strength* superb
correct* right* accura* true factual* faithful* valid* sound safe* honest* reliab* complet* full
fully comprehensive* thorough* detail* depth deep in-depth specific* precis* clear clarity concis*
brevity brief* succinct* straightforward direct* focus* relevan* on[-_](?:point|topic) appropriate*
suitab* tailor* helpful* useful* practical* actionable informative* insight* value valuable benefi*
engag* creativ* original vivid* rich nuanc* balanc* fair* objective unbiased logical* coheren*
consisten* well structur* organi[sz]* readab* accessib* easy ease natural* polish* professional*
elegan* polite* respect* friendl* empath* authentic* persuasive* convincing* compelling effective*
efficien* robust* success* grounded adher* align* captur* demonstrat* illustrat* explains? explained
explaining acknowledg* shows?_its adequate* decent acceptable step[-_]by[-_]step compil(?:es|ed)
pass(?:es|ed) works working flawless* proper* spot_on
"""
BAD = r"""
wors[et]* weak* inferior* los(?:es?|s|t|er|ing) loss runner-up failures? omission*
hallucinat* fabricat* invent* made[-_]up mak\w+_(?:\w+_)?up reject* declin* refus* eliminat*
disqualif* poor* bad badly beaten crash* detract* discard* stinks buries errors?
erroneous* incorrect* inaccura* incomplete* irrelevan* harmful unsafe dangerous* false* wrong*
mislead* confus(?:es|ed|ing) bugs? broken verbos* wordy long longer longest bloat* rambl* padding
vague* generic* shallow* superficial* gaps? limited unclear disorgani* mess sloppy nonsens* garbage
trash spam fiction satire propaganda conspira* incoheren* contradict* dodg* ignor* evad* overlook*
neglect* disregard* skip* repeat* repetit* redundan* off[-_]topic tangent* outdated biased rude*
offensive silent hidden different_(?:question|topic|task|problem) mis(?!s|conc|understanding)\w{4,}
un(?:helpful|supported|verified|necessar\w+|convincing|justified|fair|related|usable|reliable|founded|structured|able|natural|ethical)
in(?:adequate|sufficient|consistent|effective|valid|appropriate|efficient)\w* hard difficult*
problematic suffer* crash* awful* useless dull too(?=_\w) overly excess* short_of deviat* only
(?:fall|fell)\w*_short (?:fall|lag|trail)\w+_behind second[-_]best
(?:rank|com|plac)\w+_(?:second|third|last) (?:rank|scor|rat)\w+_lower lower_quality below plagiari*
copied lie[sd]? lying dishonest* trick* scam* manipulat* deceiv* flatter* begs? careless* lazy
lazily oversimplif* simplistic exceeds(?!_expect) minor average partial* partly mostly mediocre
moderate full_of easy_to_(?!understand|follow|read|use|grasp|apply)\w+ lack* lea(?:ves|ving|ft)_out
miss(?:es|ed|ing)? omit* fail(?:s|ed|ing)? (?<!a_)(?:little|few) selective* flaw(?!less)\w*
ha(?:s|ve|d)_(?:\w+_){0,3}(?:problem|concern|issue)s?
"""
# What turns the next word into its contrary; the milder words need one that is near.
TURNS = r"less fewer least not nothing never nor none cannot far_from \w*n't"
MILD_TURNS = "no without rather_than instead_of free_(?:of|from)"
# What denies that one answer is better.
EVEN = r"""
equal* identical* equivalent* indistinguishable draws? tie[ds]? on_par toss-up
no_(?:\w+_)?difference no_reason_to_prefer
(?:as|just_as|equally)_(?:good|helpful|accurate|correct|well|strong)
"""
# What would make a score more or less than it is.
ADJUSTS = r"""
minus plus deduct* subtract* lower* higher rais\w+ reduc\w+ too generous* strict* harsh* penal*
round* at_(?:best|most|least) max* min(?:imum)? up_to (?:under|over|about|around|roughly)(?=_[\d§¤])
points?_(?:for|off)
"""
# What makes any sentence doubtful, also one that holds a reason.
DOUBTS = r"""
if unless until assuming either maybe perhaps unsure barely hardly alleged* suppose* pretend*
claims_(?:to|that|it) told tells? says? said wants wanted asks asked demand* instruct(?:ed|s)
instructions?_(?:to|in) inject* otherwise except anything_but than_it no_longer guess* jok(?:e|ing)
retract* withdr[ae]w* revok* rescind* typo slip(?:ped)? never_mind not_my
first_impression (?:ignore|disregard)_(?:this|that|the_(?:above|line|verdict))
(?:somebody|someone)_else set_aside according_to_it(?:self)?
wait sorry instead(?!_of) opposite revers* swap* depend* (?:less|least)_(?:bad|wrong|evil|poor)
(?:answer|response|option|candidate|assistant|model)s?_(?:\d|one|two)
"""
DOES = (
    r"(?:serv|answer(?=s |ed|ing)|address|cover|follow|me[et]t?|satisf|fulfil|match|solv|handl|cit"
    r"|includ|provid|offer|gives?|gave|giving|explain|discuss|deliver|describ|(?:show|list"
    r"|warn)(?=s|ed)|take|backs|backed|support|adher|respect|comply|complie[sd]|obey|stick|stay"
    r"|keep|kept|us|contain|appl|get|got)\w*"
)
MENDS = r"(?:identif|fix|correct|catch|caught|spot|f[io]und|resolv|point|avoid)\w*"
# What is good of it: it answers the question, cites sources, fixes the error.
DOES_WELL = (
    r"(?:cite|explain|respect|handle|solve|cover|addresse|resolve|fixe|spot|identifie)[sd]?"
    r"(?= (?!it\b|one\b|itself\b)\w)"
    rf"|{DOES}(?: (?!it\b|one\b)[\w'-]+){{0,5}} (?:question|prompt|task|request|instruction"
    rf"|requirement"
    r"|constraint|criteri|point|part|aspect|need|format|problem|topic|reason|step|source|citation"
    r"|evidence|example|fact|cause|issue|claim)\w*"
    rf"|{MENDS}(?: \w+){{0,3}} (?:error|mistake|bug|flaw|gap|misconception|contradiction)s?"
)
BOTH = (
    rf"each(?: {NOUN}| of (?:them|the two))?|they"
    rf"|both (?:of|are|were|have|had|get|got|give|gave|{NOUN[:-2]}s?)\b"
    rf"|(?:the two|all three|all) {NOUN[:-2]}s"
)


def _any(words: str) -> str:
    return "|".join(words.split()).replace("*", r"\w*").replace("_", " ").replace("||", "|")


WEIGHED = re.compile(
    rf"(?P<own>{OWN})|(?P<other>{OTHER})|\b(?:(?P<both>{BOTH})|(?P<neither>neither)"
    rf"|(?P<does>{DOES_WELL})|(?P<alike>(?:nearly |almost )?(?:same|similar\w*|comparable"
    rf"|{_any(EVEN)}))|(?P<turn>{_any(TURNS)})|(?P<mild>{_any(MILD_TURNS)})|(?P<more>(?:more|most"
    rf"|far|much)(?!\W*(?:,|\Z)| on\b))|(?P<bad>{_any(BAD)})|(?P<better>{_any(BETTER)})"
    rf"|(?P<good>(?!\w+ly,)(?:{_any(GOOD)})))(?!\w)"
)
BEST, FINE, ALIKE, WORSE = 2, 1, 0, -1
QUALITIES = {"better": BEST, "good": FINE, "does": FINE, "alike": ALIKE, "bad": WORSE}
NAMES = {"own": OWN, "other": OTHER, "both": "both", "neither": "both"}
NEAR = 30  # characters between a word and what it turns
SCORES: tuple[Kind, ...] = ("score", "best", "worst")
AGAINST: dict[Kind, re.Pattern[str]] = {
    **dict.fromkeys(SCORES, re.compile(rf"{OTHER}|\b(?:{_any(ADJUSTS)})\b")),
    "choice": (IS_EVEN := re.compile(rf"\b(?:{_any(EVEN)})\b")),
    "order": IS_EVEN,
    "tie": re.compile("(?!)"),
}
DOUBTFUL = re.compile(
    r"~~|[?？\u0334-\u0338]|#\d|\b(?:not|nor) §|\A(?:had|were|choose|pick|select|replace"
    r"|for example)\b"
    rf"|\b(?:would|could|might|may|should|must|{_any(DOUBTS)})\b"
)

# -- Words that say nothing ------------------------------------------------------------------------

POLITE = re.compile(
    r"\b(?:let me know|feel free|please (?:let|feel|reach)|i hope|hope (?:this|that)|i(?:'m| am)"
    r" happy|happy to|thank(?:s| you) for|if you (?:have|need|would|want|'d))[^.!?\n]*"
    r"|\bthank(?:s| you)(?=\W*(?:\n|\Z))"
)
ASKED = re.compile(
    r"\b(?:what (?:they|you)|(?:what )?(?:the )?(?:user|prompt|question|task"
    r"|instruction)s?(?:'s)?) (?:\w+ly |has |had )?(?:asks?|asked|wants?|wanted|demand\w*"
    r"|request(?:s|ed)|requires?|needs?)(?: for)?\b|\bwhat (?:was|is|had been) (?:\w+ly )?(?:asked"
    r"|requested|wanted)(?: for)?\b"
)
# Phrases without weight, in which single words would have some.
IDIOMS = re.compile(
    r"\bas (?:asked|requested|well|such)\b|\byou (?:asked|requested)(?: for)?|\bnot only\b"
    r"|\bthe only\b(?! (?:one|answer|response)\b)|\bthat (?:being )?said\b|best to worst"
    r"|\bin a way that would matter\b"
    r"|\bi(?: would|'d) (?=choose|go with|pick|prefer|rate|recommend)|(?:(?<=\bwhich )"
    r"|(?<=\bthat ))(?:\w+ly )?(?:would|could|might|may|can)\b"
    rf"|,? (?:including|such as|covering|explaining|discussing) [^.;{OWN}{OTHER}]+?"
    r"(?=, (?:which|but|and|while|whereas)\b|\.|\Z)"
)
REASONS = r"(?:\w+ )?(?:reason(?:ing|s)?|justification|explanation|rationale|strengths?|note)"
# They lead to a verdict, or close a reply.
FILLING = re.compile(
    r"\b(?:(?:in|to) (?:conclusion|conclude|summary|summari[sz]e|short|sum up|the end)|with (?:that"
    r"|this)(?: in mind)?|all things considered|(?:given|with|after) all(?: of)? (?:this|that)"
    r"|(?:after|on|having) (?:careful\w* |due )?(?:consideration|compar\w+|weigh\w+|read\w+"
    r"|review\w*|consider\w+|evaluat\w+|analy[sz]\w+)(?: (?:of )?(?:both|the two|all|them"
    r"|everything)(?: answers| responses)?)?|(?:i|we|i'd|i'll|let's)(?: (?:therefore|thus|hence"
    r"|will|am))?(?: (?:conclude|decide|end|judge|finish|give|go|chose|choose|picked|selected"
    r"|select|pick|prefer|rate|confident|stand by))(?: with| in| this| it| that| for){0,2}"
    r"|here (?:is|are)|here's|the (?:better|best|winning)|my reasoning is above|in my (?:view"
    r"|opinion)|last line|step \d{1,2}|as follows|by (?:far|an?)"
    r"|my|our|the|this|is|was|so|and|then|sure|ok|okay|thus"
    r"|therefore|hence|overall|final|finally|accordingly|consequently|ultimately|clearly|definitely"
    r"|easily|verdict|decision|judge?ment|conclusion|evaluation|comparison|assessment|winner|answer"
    r"|response|because|result|choice|preference|score|rating|grade|level|ranking|order|line|json"
    r"|object|output|vote|boxed|call|(?:counts|matters) most|(?:the )?(?:two|both) (?:answers"
    r"|responses)|would be(?=\W*\Z)|end(?: of)?|complete|concludes|completes|ends|done|reply"
    r"|message|cheers|(?:best|kind) regards|your judge|confidence|certainty|certain|confident"
    r"|fairly|quite|very|high|medium|margin|difference|gap|small|large|slight|narrow|close|clear"
    r"|easy|it|that|are|reasons|explained|given|stated|based on|criteria|rubric|see|above|i'm|i am"
    r"|besser|genauer|antwort|die|meilleure|précise|plus|la|réponse|merci|mejor|respuesta|gracias"
    r"|migliore|risposta|melhor|resposta|лучше|ответ"
    rf"|moderate|strong|full|of|in|points?|stars?|分|{REASONS}|(?:[6-9]\d|100)(?:\.\d+)?\s?%"
    r"|(?<=confidence)[\s\]*_:=]*(?:[6-9]\d(?:\.\d+)?|100|0?\.[6-9]\d*|1\.0+)(?![\d.])"
    # "my verdict", "final", "therefore" elsewhere
    r"|mein\w*|das|lautet|ist|daher|somit|also|folglich|endgültig\w*|urteil|ergebnis|fazit"
    r"|bewertung|mon|ma|le|est|donc|ainsi|par conséquent|en conclusion|voici|évaluation|mi|el|es"
    r"|por (?:lo )?tanto|así que|en conclusión|veredicto|conclusión|meu|o|é|portanto|logo|veredito"
    r"|conclusão|il|mio|quindi|pertanto|dunque|verdetto|finale|conclusione|итог\w*|вердикт|поэтому"
    r"|таким образом|вывод|النتيجة|الحكم|النهائي|अंतिम|निर्णय|निष्कर्ष)(?!\w)"
    r"|最终|最終|我的|判决|判定|裁决|结论|結論|排名|评分|評価|评价|以下是|综上所述?|因此|所以"
    r"|したがって|よって|なので|최종|판정|결론|따라서|점수|回答|答案|[也且而]*更(?:好|准确|完整|清晰|详细)|是|为|は|->|=>|%"
)

# -- Sentences -------------------------------------------------------------------------------------

MARK = r"[\s*_`\"'(\[]"
NAME = f"([{OWN}{OTHER}])"
BEATS = (
    r"(?:than|over|ahead of|followed by|then|beats?|outperform\w*|surpass\w*|edges? out"
    r"|(?:superior|prefer\w+) to)"
)
BEATS_OWN = re.compile(rf"(?:\b{BEATS}|>){MARK}{{1,3}}{OWN}")
# Turns of phrase, each with a plainer one. One is of an answer that is only what the chosen
# one is measured against: "better than B".
PLAINER = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (
            rf"\A(?:{REASONS}[\s*_]*:|the (?:\w+ )?(?:deciding|decisive|main|key|biggest) "
            r"(?:factor|difference|reason|point)s?(?: is| was)?)\W+(?:that )?",
            f"{OWN} ",
        ),
        (rf"\A(\w+)\W*:\W*{NAME}\W*\Z", r"\2 \1"),
        (rf"\b(?:keeps?|prevents?|holds?) (?:it|this) from (?:\w+ )?(?:an? )?{OTHER}", ""),
        (rf"\bwould have (?:been|earned) (?:an? )?{OTHER}", "lacks"),
        (rf"\b(?:could|would|might|may) (?=(?:{_any(BAD)})\b)", ""),
        (
            r"\b(?:could|would) (?:be|have been) (?:better|perfect|stronger|more (?!than)\w+)",
            "lacks",
        ),
        (rf"\A(?:given|due to|because of) ([^{OWN}{OTHER}]+) (?:of|in|from) {NAME}", r"\2 \1"),
        # "Its accuracy is doubtful" is no praise.
        (rf"\bthe \w+ (?:of|in|from) {NAME}(?= (?:is|was)\b)", r"\1"),
        (rf"{NAME}'s? (?!errors?|mistakes?|flaws?|bugs?|lack|fail)\w+", r"\1"),
        (
            rf"\b(?:less|fewer|worse|weaker|inferior)\b[^§¤]{{0,80}}\b(?:than|to) {OWN}(?:'s \w+)?",
            "worse",
        ),
        (r"(?:outperform|surpass|beat|best|outclass|outd|match)\w* by", "worse than"),
        (rf"{OWN}{MARK}*(?:(?<![-=])>{{1,3}}|\bover){MARK}{{1,3}}{OTHER}", f"{OWN} better"),
        (
            rf"((?:\b(?:{BEATS}|unlike|versus|vs|(?:compared|comparison|relative|contrast) (?:to"
            rf"|with))|>){MARK}{{1,3}})(?:(?:that|those) (?:of|in) )?{OTHER}(?:'s(?: \w+)?)?",
            r"\1",
        ),
        (rf"(?:not|n't) \w+ (?:\w+ly )?(?:by|in) {OTHER}", ""),
        (
            rf"\b(?:errors?|mistakes?|flaws?|weakness\w*) (?:found )?(?:of|in|from|by) {NAME}",
            r"\1 bad",
        ),
        (rf"\bonly{MARK}{{1,3}}{NAME}", r"\1 better"),
    )
]
SENTENCES = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!ex)\.(?!\w)|[!;。！；]|\s[–—-]+\s")
CONTRASTS = re.compile(
    r":\s|\b(?:but|yet|while|whereas|although|though|however|despite|because|since)\b"
)
WHILE = re.compile(r"\w\W+(?:while|whereas)\b")
ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s")
HEADING = re.compile(rf"{REASONS}(?: (?:of|for) {OWN})?\W*:\W*\Z")
# A sentence that begins so speaks of the answer that was last named, or of the chosen one; and so
# does one that names none and begins with its quality or a reason.
BEGINS = (
    r"(?:(?:\w+ly|and|so|thus|hence|therefore|overall|also|because|since|as|in short)[\s,:*_]+)*"
)
REFERS = re.compile(
    rf"{BEGINS}(?:it|its|this|that|which|i \w+ (?:it|this)|(?:the|my|this|that) (?:chosen "
    rf"|preferred )?(?:{NOUN}|reason)(?= (?:is|was|has|had|did|also|\w+ly|\w+s|\w+ed)\b))(?!\w)"
)
REMARKS = re.compile(
    rf"{BEGINS}(?:due|given|considering|based|by|for|thanks|with|(?:an? |very |has |much |far "
    rf"|more |most |less |no )*(?!\w+ly\b)(?:{_any(BETTER)}|{_any(GOOD)}|{_any(BAD)}"
    rf"|{DOES_WELL}))(?!\w)"
)
# What makes more or less of the verdict that it follows: "4.5", "A-", "3-4", "B >".
GLUED = re.compile(r"[-+±~%^<>=×÷/&]|'\w|(?!\s?\(\d\d0?\s?%)\W*\d|\W*[>=]|\s*[/+&]")
BEATEN = re.compile(rf"\A{MARK}*(?<![-=])>{{1,3}}{MARK}{{0,3}}{OTHER}")
BARE_WORD = re.compile(r"[\s*_`]*\s[\s*_`]*(?=\w)|(?=分)")
# What may follow a verdict without a stop; "4 errors" and "a tough call" may not.
REASON = r"because|since|due to|given|based on|for|with"
AMOUNT = re.compile(rf"\W*(?:{REASON}|points?\b|stars?\b|分)")
GOES_ON = re.compile(
    rf"\W*(?:\w+ly\W+)?(?:{REASON}|as|over|by|on|is|was|has|had|\w+[a-rt-z]s|\w+ed)\b|\W*\w+ly\W*\Z"
)
LONGEST = 1_000
Stance = Literal["for", "against", "concedes", "nothing", "unknown"]


def is_harmless(kind: Kind, after: str, closing: str) -> bool:
    """Return whether the words after a verdict in its line, and those of the lines below it, leave
    it as it is. Where they name answers, they have OWN or OTHER instead."""
    if kind == "choice":
        after = BEATEN.sub("", after)
    if GLUED.match(after) or len(after) + len(closing) > LONGEST:
        return False
    if BARE_WORD.match(after):
        if not (AMOUNT if kind in SCORES else GOES_ON).match(after):
            return False
        after = f"{OWN if OTHER in after else 'it'} {after.lstrip()}"
    stances: set[Stance] = set()
    subject, listed = "", False
    for line in _smooth(POLITE.sub(" ", f"{after}\n{closing}")).split("\n"):
        listed = listed and bool(ITEM.match(line))
        for sentence in SENTENCES.split(ITEM.sub("", line, count=1)):
            words = DECORATION.sub("", sentence, count=1)
            stance, subject = _stance(kind, words, subject, "for" in stances)
            if stance == "against" or (stance == "unknown" and not listed):
                return False
            stances.add(stance)
        listed = listed or bool(HEADING.match(DECORATION.sub("", line, count=1)))
    return "for" in stances or "concedes" not in stances


def _smooth(words: str) -> str:
    return IDIOMS.sub(" ", ASKED.sub("the question", words))


def _says_nothing(words: str) -> bool:
    return not DECORATION.sub("", FILLING.sub(" ", words.replace(OWN, " ")))


def _stance(kind: Kind, words: str, subject: str, supported: bool) -> tuple[Stance, str]:
    """Return how a sentence stands to the verdict, and what it speaks of at its end.

    supported: whether a sentence above it speaks for the verdict, so this one need not.
    """
    if _says_nothing(words):
        return "nothing", subject
    for pattern, plain in PLAINER:
        words = pattern.sub(plain, words)
    if DOUBTFUL.search(words) or BEATS_OWN.search(words) or AGAINST[kind].search(words):
        return "against", subject
    is_named = OWN in words or OTHER in words
    # "The winner stands next to A" is not about the winner alone.
    speaks_on = (OWN not in words and REFERS.match(words)) or (
        not is_named and (REMARKS.match(words) or (kind == "tie" and IS_EVEN.search(words)))
    )
    subject = (subject or OWN) if speaks_on else ""
    weighed: list[tuple[str, int]] = []
    for clause in CONTRASTS.split(words):
        said, subject = _weigh(clause, subject)
        weighed += said
    sides = [_side(kind, *each) for each in weighed]
    # The last word must not be in favour of another answer, and none is named for nothing.
    in_favour = subject == OTHER and (not said or said[-1][0] != OTHER or not sides[-1])
    last_word = in_favour and not (1 in sides and WHILE.search(words))
    # "A is more complete, though less concise" prefers A; "B is fine, A better but wrong" may not.
    is_mixed = OTHER in words and (OWN, WORSE) in weighed
    if OWN in words and (OWN, BEST) in weighed and not (is_mixed or last_word):
        sides = [side for side in sides if (OTHER, BEST) in weighed or side > 0]
    elif supported and OWN not in words and weighed[-1:] == [(OTHER, WORSE)]:
        sides = [1]
    if -1 in sides or (last_word and not supported):
        return "against", subject
    if not sides or (not said and len(clause.split()) > 1 and not in_favour):
        unknown: Stance = "nothing" if supported and OTHER not in words else "unknown"
        return ("for" if OWN in words and not sides else unknown), subject
    return ("for" if 1 in sides else "concedes"), subject


def _side(kind: Kind, subject: str, quality: int) -> int:
    """Return 1 if words about a subject speak for the verdict, -1 if against it."""
    if kind in SCORES:
        return int({"best": quality > 0, "worst": quality < 0}.get(kind, True))
    if kind == "tie":
        return -1 if subject == OTHER or quality == BEST else 1
    if subject == OWN:
        return 1 if quality > 0 else -1
    return 0 if subject == "both" or quality in (ALIKE, FINE) else -1 if quality == BEST else 1


def _weigh(clause: str, subject: str) -> tuple[list[tuple[str, int]], str]:
    """Return which qualities a clause gives to whom, and what it speaks of at its end.

    Words before the first name are about the answer that it names.
    """
    said: list[tuple[str, int]] = []
    waiting: list[int] = []
    turns: dict[str, int] = {}
    places = [(match.lastgroup or "", match.start()) for match in WEIGHED.finditer(clause)]
    for word, place in [*places, ("end", len(clause))]:
        if word in ("turn", "mild", "more"):
            turns[word] = place
            continue
        quality = _turned(QUALITIES.get(word), turns, place)
        waiting += [] if quality is None else [quality]
        if subject:
            said += [(subject, quality) for quality in waiting]
            waiting = []
        elif word in NAMES:  # "The best of A is its title": blame alone is known to be its
            said += [(NAMES[word], quality) for quality in waiting if quality == WORSE]
            waiting = []
        subject = NAMES.get(word, subject)
        # "Less detailed and structured" blames twice.
        blames = word in QUALITIES and quality == WORSE
        turns = {"turn": place} if word == "neither" else {"blame": place} if blames else {}
    return said, subject


def _turned(quality: int | None, turns: dict[str, int], place: int) -> int | None:
    """Return a quality as the words before it make it: "less", "no", "more"."""
    is_near = place - max(turns.get("turn", -NEAR), turns.get("mild", -NEAR)) < NEAR
    if quality is None:
        return WORSE if "turn" in turns else None
    if quality == WORSE:
        return FINE if is_near else WORSE
    if is_near or "turn" in turns or (quality == FINE and "blame" in turns and "more" not in turns):
        return WORSE
    return BEST if "more" in turns else quality


# -- Before a verdict, in its line -----------------------------------------------------------------

BULLET = re.compile(r"\A\W*(?:\+\s|\d{1,2}[.)]\s|[a-z]\)\s|\[x\])")
CLAUSE_END = re.compile(r"[,:;]|[-–—=]+>?\s|\band\b|(?=\b(?:so|thus|therefore|hence)\b)")


def is_lead_in(kind: Kind, words: str) -> bool:
    """Return whether `words`, just before a verdict in its line, only lead to it."""
    words = _smooth(BULLET.sub("", SENTENCES.split(words)[-1]))
    return len(words) < LONGEST and any(
        _says_nothing(words[end:]) and (not end or is_harmless(kind, "", words[:end]))
        for end in [0, *(end.end() for end in CLAUSE_END.finditer(words))]
    )


# -- Refusals --------------------------------------------------------------------------------------

# In the first words of a reply, with straight apostrophes.
REFUSALS = re.compile(
    r"\b(?:i|we)(?: can't| cannot| can not| won't| will not| am unable to|'m unable to"
    r"|'re unable to|'m not able to| am not able to| must decline to| have to decline| decline to"
    r"|'d rather not| am not comfortable|'m not comfortable| do not feel comfortable"
    r"| don't feel comfortable| must refuse to| refuse to)(?: in good conscience)? (?:assist|help"
    r"|comply|judg|compar|evaluat|provid|do that|do this|rat|engag|continu|answer|fulfil|discuss"
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
    r"|对此|對此)|お手伝いできません|お答えできません|評価できません|お応えできません"
    r"|対応できません|比較できません|(?:評価|比較|回答|判断|対応)することはできません"
    r"|도와드릴 수 없|평가할 수 없|답변(?:을|할| ?드릴) 수 없|비교할 수 없|لا (?:أستطيع"
    r"|يمكنني) (?:المساعدة|مساعدتك|تقييم|مقارنة|الإجابة)"
)
