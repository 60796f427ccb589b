"""Words around a verdict: which of them leave it certain, and which refuse one.

No list of the ways to take a verdict back could be complete. So words are harmless only if they
begin in a known way and contain none of the known doubts. Any others make the verdict unreadable,
and the judge is asked for it once more. Texts are in lower case, without invisible characters.
"""

import re
from typing import Literal

Kind = Literal["choice", "tie", "score", "order"]

# Not what strikes out, forbids or points down.
PICTURES = r"(?![❌❎✖✗✘☒⛔🚫👎])[←-⇿⌀-➿⬀-⯿\U0001f000-\U0001faff\ufe0f]"
DECORATION = re.compile(rf"(?:[\s*_`•‣◦▪·#\"'“”„‟‘’‚‛«»‹›()\[\]{{}}|\\.,:;!…—–-]|{PICTURES})*")
POLITE = re.compile(
    r"\b(?:let me know|feel free|please (?:let|feel|reach)|i hope|hope (?:this|that)|i(?:'m| am)"
    r" happy|happy to|thank(?:s| you)|if you (?:have|need|would|want|'d))[^.!?]*"
)
DOUBTS = re.compile(
    r"~~|[?？\u0334-\u0338]|n't\b|"
    r"\b(?:not|never|no|nor|neither|none|cannot|wait|hmm+|oops|sorry|actually|instead|unless|if"
    r"|either|or|would|could|might|may|maybe|perhaps|should|unsure|uncertain|undecided|wrong\w*"
    r"|incorrect\w*|mistaken\w*|mistakes?|correction|correcting|reconsider\w*|revis\w+|chang\w+"
    r"|second|first|former|latter|left|reflection|retract\w*|withdraw\w*|rescind\w*|ignore"
    r"|disregard|cancel\w*|scratch|strike|opposite|contrary|revers\w+|invert\w*|flip\w*|swap\w*"
    r"|half|joke|joking|kidding|void|abstain\w*|declin\w*|"
    # the other answer, and what stands elsewhere
    r"others?|alternative\w*|rival|yet|but|although|though|however|except|than|versus|vs"
    r"|above|below|before|after|earlier|previous\w*|preceding|initial\w*|later|lines?|formats?"
    r"|examples?|placeholders?|templates?|drafts?|provisional\w*|tentative\w*|pending|confirm\w*"
    r"|hypothe\w+|suppos\w+|assum\w+|suspect\w*|pretend\w*|illustrat\w*|temporar\w+|claims?|claimed"
    r"|quot\w+|attack\w*|inject\w*|forge\w*|fake\w*|told|tells?|said|says?|wants?|wanted|asks?"
    r"|asked|demand\w*|instructed|instructs?|duress|trap)\b"
)
# What speaks against the answer that is said to be the better one.
AGAINST = re.compile(
    r"\b(?:wors[et]\w*|weak\w*|inferior|los(?:es|t|er|ing|e)|fail\w*|lacks?|lacking|miss(?:es|ing)"
    r"|hallucinat\w*|trail\w*|disqualif\w*|reject\w*|ruled?|eliminat\w*|last|behind|lower|lowest"
    r"|poor\w*|bad\w*|beaten|errors?|inaccura\w*|incomplete|irrelevan\w*|harmful|unsafe|less|least"
    r"|false\w*|reversed|ascending|shortest|longest|lengths?|crash\w*|flaw\w*|mislead\w*"
    r"|confus\w*|buggy"
    r"|broken|verbose|threat\w*|bribe\w*|forced|must|random\w*|coin|nothing|nobody|only|fool\w*"
    r"|the \w+ one|the (?:longer|shorter|rest)|contrast|instructions? in"
    r"|(?:answer|response|option|candidate|assistant|model)s? (?:\d|one|two))\b|#\d"
)
EQUAL = re.compile(r"\b(?:equal\w*|even|same|identical\w*|draws?|tie[ds]?|both(?=\W*(?:\n|\Z)))\b")
# What would make a score more or less than it is.
ADJUSTS = re.compile(
    r"\b(?:minus|plus|deduct\w*|subtract\w*|add(?:ed|ing|s)?|less|lower\w*|higher|rais\w+|reduc\w+"
    r"|too|generous\w*|strict\w*|harsh\w*|penal\w+|round\w*|most of all|at (?:best|most|least)"
    r"|max\w*|min(?:imum)?|up to|under|over|almost|nearly|barely|quite|about|around|roughly)\b"
)
AGAINST_KIND: dict[Kind, tuple[re.Pattern[str], ...]] = {
    "choice": (AGAINST, EQUAL),
    "tie": (AGAINST,),
    "score": (ADJUSTS,),
    "order": (AGAINST, EQUAL),
}

# -- Before a verdict, in its line -----------------------------------------------------------------

# Not the end of "e.g.".
SENTENCE_END = re.compile(r"(?<=[^.][^.][.!;])(?<!\bex\.)\s+|(?<=[。！；])")
BULLET = re.compile(r"\A\W*(?:\d{1,2}[.)]\s|[a-z]\)\s|\[x\])")
LEAD_IN = re.compile(
    r"(?:in|to) (?:conclusion|conclude|summary|short|sum up|the end)"
    r"|with (?:that|this)(?: in mind)?|after (?:comparing|weighing|reading|considering)"
    r" (?:both|the two|all|them|everything)(?: answers)?|(?:i|we) (?:(?:therefore|thus|will) )?"
    r"(?:conclude|decide|end|judge|finish|give|choose)(?: with)?|here (?:is|are)|(?:a|the) tie|"
    r"\b(?:(?:my |the )?final answer|(?:my|the) answer|my|our|the|this|is|so|and|then|sure|ok|okay"
    r"|thus|therefore|hence|overall|finally|final|last|accordingly|consequently|verdict|decision"
    r"|judge?ment|conclusion|evaluation"
    r"|assessment|result|choice|preference|score|rating|grade|level|ranking|order"
    r"|(?:my|the|last) line|(?:json )?(?:object|output)|json|vote|boxed)\b|->|=>"
)
REASON = re.compile(r"\A(?:since|because)\b[^.:;!?]{1,200},")
CONSEQUENCE = re.compile(r"\A.{0,200}[,;–—-]\s*(?=(?:so|thus|therefore|hence)\b)")
DENIES = re.compile(
    r"\b(?:if|unless|would|could|might|without|under|as|i|threat|must)\b|\bsay|\btell|\bwant"
)


def is_lead_in(words: str) -> bool:
    """Return whether `words`, just before a verdict in its line, only lead to it."""
    words = BULLET.sub("", SENTENCE_END.split(words)[-1])
    reason = REASON.match(words.strip()) or CONSEQUENCE.match(words.strip())
    if reason and not DENIES.search(reason[0]):
        words = words.strip()[reason.end() :]
    return not DECORATION.sub("", LEAD_IN.sub(" ", words))


# -- After a verdict -------------------------------------------------------------------------------

# What may follow a verdict without a stop between them.
REASONS = (
    r"because\b|since\b|due to\b|given (?:that|its|the|how)\b|based on\b|for (?:its|being|the)\b"
    r"|by (?:a|far)\b|with (?:high|moderate|medium|low|strong|full)?\s?confidence\b|on balance\b"
)
GOES_ON = {
    "choice": re.compile(
        rf"{REASONS}|(?:clearly |slightly |easily )?(?:wins\b|beats\b|outperforms\b|over\b)"
        r"|(?:is|was) (?:\w+ly |much |far |a bit |a little )?(?:the )?(?:\w+ly |more |most )?"
        r"(?:better|best|winn\w+|superior|stronger|prefer\w+|correct|accurate|complete|helpful"
        r"|clear\w*|right|thorough|detailed|informative|concise|relevant)\b"
    ),
    "tie": re.compile(REASONS),
    "score": re.compile(rf"{REASONS}|(?:points?|stars?)\b"),
    "order": re.compile(REASONS),
}
# How a sentence, or a remark in brackets, that only explains begins.
BEGINS = re.compile(
    r"(?:it|its|it's|this|that is|that's|i (?:chose|choose|prefer|picked|selected|gave|find)"
    r"|which (?:is|was)|the (?:answers?|responses?|winner|better|best|chosen|preferred|reason\w*)"
    r"|answers?|responses?|option|assistants?|candidate|overall|both|all|as (?:it|both|the)"
    r"|(?:very )?(?:high|moderate|medium|low|full)|confiden\w+|certainty|clear\w*|strong\w*"
    r"|slight\w*|narrow\w*|easi\w+|much|more|mostly|most|far|by|better|best|good|very|excellent"
    r"|great|fair|correct|accurate|complete|concise|helpful|thorough|detailed|relevant"
    r"|well|equal\w*|reason\w*"
    r"|in (?:short|summary|sum|particular)|why|strengths?|higher|greater|clearer|richer|simpler"
    r"|explanation|justification|rationale|done|json"
    r"|end(?! of)|end of (?:my |the )?(?:evaluation|verdict|judge?ment|reply|message)|wins?|winner"
    r"|covers|gives|provides|explains|one|points?|stars?|score|scores|level|because|since"
    r"|due|given|for|with|on balance"
    r"|[a-h] (?:is|was|has|does|gives|provides|covers|explains|offers|wins|better|more|also|and"
    r"|addresses|answers|follows|includes|uses|cites|contains|shows|presents|\w+ly))\b"
)
FORM = "best to worst"
SENTENCES = re.compile(r"\.(?!\d)|[!;。！；\n]|\s[–—-]+\s")
# What makes more or less of the verdict that it follows: "4.5", "A-", "3-4", "B >".
GLUED = re.compile(r"[-+±~%^<>=×÷/&]|'\w|\W*\d|\W*[>=]|\s*[/+&]")
BARE_WORD = re.compile(r"[\s*_`]*\s[\s*_`]*(?=\w)")


def is_harmless(kind: Kind, after: str, closing: str) -> bool:
    """Return whether the words after a verdict in its line, and those of the lines below it, leave
    it as it is."""
    after, closing = (POLITE.sub(" ", text.replace(FORM, "")) for text in (after, closing))
    both = f"{after} {closing}"
    if GLUED.match(after) or any(words.search(both) for words in (DOUBTS, *AGAINST_KIND[kind])):
        return False
    sentences = SENTENCES.split(after)
    if bare := BARE_WORD.match(after):
        if not GOES_ON[kind].match(after, bare.end()):
            return False
        sentences = sentences[1:]
    return all(map(_only_explains, [*sentences, *SENTENCES.split(closing)]))


def _only_explains(sentence: str) -> bool:
    begin = DECORATION.match(sentence)
    start = begin.end() if begin else 0
    return start == len(sentence) or bool(BEGINS.match(sentence, start))


# -- Refusals --------------------------------------------------------------------------------------

# In the first words of a reply, with straight apostrophes.
REFUSALS = re.compile(
    r"\b(?:i|we)(?: can't| cannot| can not| won't| will not| am unable to|'m unable to"
    r"|'re unable to"
    r"|'m not able to| am not able to| must decline to| have to decline| decline to|'d rather not"
    r"| am not comfortable|'m not comfortable| do not feel comfortable| don't feel comfortable"
    r"| must refuse to| refuse to)"
    r"(?: in good conscience)? (?:assist|help|comply|judg|compar|evaluat|provid|do that|do this"
    r"|engag"
    r"|continu|answer|fulfil|discuss|rat|choos|participat|respond|proceed|process|complet|grad"
    r"|score"
    r")"
    r"|\b(?:i must (?:\w+ )?decline|i (?:have to|need to) decline|i won't be able to"
    r"|i'm unable to take|i'm not able to (?:provide|take)"
    r"|(?:isn't|is not) something (?:that )?i (?:can|am able to))\b"
    r"|\bas an ai\b[^.]{0,40}\bi (?:can't|cannot|am unable|am not able)\b"
    r"|\b(?:against my (?:guidelines|policy|policies)|violates? (?:my|our|the) (?:\w+ )?polic)"
    r"|\bich (?:kann|möchte|darf|werde)\b.{0,60}\bnicht\b"
    r"|\bich bin nicht in der lage\b"
    r"|\bals ki\b.{0,20}\bkann ich\b.{0,60}\bnicht\b"
    r"|\b(?:jag|jeg) kan\b.{0,20}\b(?:inte|ikke) (?:bedöma|jämföra|hjälpa|vurdere|bedømme"
    r"|sammenligne|hjelpe|hjælpe)"
    r"|\ben voi (?:arvioida|vertailla|auttaa)"
    r"|\b(?:nemohu|nemůžu)\b.{0,40}\b(?:hodnotit|porovn|pomoc)"
    r"|\bnem tudom (?:értékelni|összehasonlítani)|\bnu pot (?:evalua|compara|ajuta)"
    r"|\bδεν μπορώ να (?:αξιολογ|συγκρίν|βοηθ)|\bkhông thể (?:đánh giá|so sánh|giúp|hỗ trợ)"
    r"|\btidak (?:dapat|bisa) (?:menilai|membandingkan|membantu)|मूल्यांकन नहीं कर सकत|तुलना नहीं कर सकत"
    r"|ไม่สามารถ(?:ประเมิน|เปรียบเทียบ|ช่วย)|\bне (?:можу|буду) (?:оцін|порівн|допом)"
    r"|(?:איני|אינני|אני לא) (?:יכול|יכולה) (?:להעריך|להשוות|לעזור|לסייע)"
    r"|\bje (?:ne (?:peux|suis|saurais)|refuse)\b.{0,30}"
    r"\b(?:aider|évaluer|juger|comparer|répondre|mesure|noter|traiter)"
    r"|\b(?:no (?:puedo|podemos)|no me es posible) (?:ayud|evalu|juzg|compar|respond|asist"
    r"|cumpl|proce)"
    r"|\b(?:não posso|não consigo|não me é possível) (?:ajud|avali|julg|compar|respond|cumpr"
    r"|process)"
    r"|\b(?:non posso|non sono in grado di) (?:aiut|valut|giudic|confront|rispond|soddisf|elabor)"
    r"|\bik kan\b.{0,40}\bniet (?:help|beoordel|vergelijk|beantwoord)"
    r"|\bnie mogę (?:pomóc|ocenić|porównać|odpowiedzieć)"
    r"|\b(?:yardımcı olamam|değerlendiremem|karşılaştıramam)"
    r"|\bя не (?:могу|буду) (?:помо|оцен|суди|сравн|ответ|выполн)"
    r"|(?:无法|無法|不能|不便)(?:协助|協助|帮助|幫助|评判|評判|评价|評價|评估|評估|比较|比較|回答|满足|滿足|提供|对此|對此)"
    r"|お手伝いできません|お答えできません|評価できません|お応えできません|対応できません|比較できません"
    r"|(?:評価|比較|回答|判断|対応)することはできません"
    r"|도와드릴 수 없|평가할 수 없|답변(?:을|할| ?드릴) 수 없|비교할 수 없"
    r"|لا (?:أستطيع|يمكنني) (?:المساعدة|مساعدتك|تقييم|مقارنة|الإجابة)"
)
