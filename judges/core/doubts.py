"""Words around a verdict: which of them leave it certain, and which refuse one.

No list of the ways to take a verdict back could be complete. So a sentence is harmless only if it
speaks for the verdict: it names the verdict (written `OWN` here) and praises it (says anything of a
score or a tie), or gives it a reason, or is a courtesy. None may hold one of the known doubts. Any
other makes the verdict unreadable, and the judge is asked for it once more. Texts are in lower
case, without invisible characters.
"""

import re
from typing import Literal

Kind = Literal["choice", "tie", "score", "order"]
OWN = "§"  # stands for the verdict wherever it is named

# Not what strikes out, forbids or points down.
PICTURES = r"(?![❌❎✖✗✘☒⛔🚫👎])[←-⇿⌀-➿⬀-⯿\U0001f000-\U0001faff\ufe0f]"
# A box that is not ticked is no decoration, either.
MARKS = r"(?!\[\s*\])[\s*_`•‣◦▪·#\"'“”„‟‘’‚‛«»‹›()\[\]{}|\\.,:;!…—–-]"
DECORATION = re.compile(rf"(?:{MARKS}|{PICTURES})*")
POLITE = re.compile(
    r"\b(?:let me know|feel free|please (?:let|feel|reach)|i hope|hope (?:this|that)|i(?:'m| am)"
    r" happy|happy to|thank(?:s| you) for|if you (?:have|need|would|want|'d))[^.!?]*"
    r"|\bthank(?:s| you)(?=\W*(?:\n|\Z))"
)
DOUBTS = re.compile(
    r"~~|[?？\u0334-\u0338]|n't\b|"
    r"\b(?:not|never|no|nor|neither|none|cannot|wait|hmm+|oops|sorry|actually|instead|unless|if"
    r"|either|or|would|could|might|may|maybe|perhaps|should|unsure|uncertain|undecided|wrong\w*"
    r"|incorrect\w*|mistaken\w*|mistakes?|correction|correcting|reconsider\w*|revis\w+|chang\w+"
    r"|second|first|former|latter|left|reflection|retract\w*|withdraw\w*|rescind\w*|ignore"
    r"|disregard|cancel\w*|scratch|strike|opposite|contrary|revers\w+|invert\w*|flip\w*|swap\w*"
    r"|barely|hardly|scarcely|nearly|alleged\w*|seemingly|merely|half|joke|joking|kidding|void"
    r"|abstain\w*|declin\w*|others?|alternative\w*|rival|yet|but|although|though|however|except"
    r"|than|versus|vs|above|below|before|after|earlier|previous\w*|preceding|initial\w*|later"
    r"|lines?|formats?|example|placeholders?|templates?|drafts?|provisional\w*|tentative\w*|pending"
    r"|confirm\w*|hypothe\w+|suppos\w+|assum\w+|suspect\w*|pretend\w*|illustrat\w*|temporar\w+"
    r"|claims?|claimed|quot\w+|attack\w*|inject\w*|forge\w*|fake\w*|told|tells?|said|says?|wants?"
    r"|wanted|asks?|asked|demand\w*|instructed|instructs?|duress|trap)\b"
)
# What speaks against the answer that is said to be the better one.
AGAINST = re.compile(
    r"\b(?:wors[et]\w*|weak\w*|inferior|los(?:es|t|er|ing|e)|fail\w*|lacks?|lacking|miss(?:es|ing)"
    r"|hallucinat\w*|trail\w*|disqualif\w*|reject\w*|ruled?|eliminat\w*|last|behind|lower|lowest"
    r"|poor\w*|bad\w*|beaten|errors?|inaccura\w*|incomplete|irrelevan\w*|harmful|unsafe|less|least"
    r"|false\w*|reversed|ascending|shortest|longest|lengths?|crash\w*|flaw\w*|mislead\w*|confus\w*"
    r"|buggy|broken|verbose|threat\w*|bribe\w*|forced|must|random\w*|coin|nothing|nobody|only"
    r"|fool\w*|the \w+ one|the (?:longer|shorter|rest)|contrast|instructions? in|(?:answer|response"
    r"|option|candidate|assistant|model)s? (?:\d|one|two))\b|#\d"
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

# -- What is no part of a reply, and how texts name answers ----------------------------------------

# What models think, or write before their final channel, is not part of the reply.
THOUGHT_ENDS = re.compile(
    r"</(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)\s*>"
    r"|\[/think\]|◁/think▷|<\|channel\|>\s*final\s*<\|message\|>",
    re.IGNORECASE,
)
THOUGHT_BEGINS = re.compile(
    r"<(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)\s*>"
    r"|\[think\]|◁think▷|<\|channel\|>\s*(?:analysis|commentary)\b",
    re.IGNORECASE,
)
END_TOKENS = re.compile(
    r"</s>|<\|[a-z0-9_ ]{1,30}\|>|<｜[^｜<>]{1,30}｜>|<(?:end_of_turn|eos|eot|pad)>|\[/?inst\]",
    re.IGNORECASE,
)
NOUN = (
    r"(?:answer|response|option|candidate|assistant|model|choice|winner|verdict|score|rating|level"
    r"|grade)\b"
)
# "The second answer" is B, whatever else is said of it.
ORDINALS = (
    (re.compile(rf"\b(?:the )?(?:first|former) (?:{NOUN}|one\b)", re.IGNORECASE), "A"),
    (re.compile(rf"\b(?:the )?(?:second|latter) (?:{NOUN}|one\b)", re.IGNORECASE), "B"),
)
OWN_CHOICE = {
    "a": r"(?<!\w)(?:A|a(?=\W*\Z))(?!\w)",
    "b": r"(?<!\w)[Bb](?!\w)",
    "tie": rf"\b(?:[Aa] )?(?i:tie|draw)\b|\b(?i:both)\b(?: {NOUN[:-2]}s?)?(?: A and B)?"
    rf"|\b(?:{NOUN[:-2]}s )?A and B\b|\b[Tt]hey\b"
    rf"|\b[Nn]either (?:{NOUN} |one )?is (?:\w+ )?(?:better|superior)",
}


def final_text(reply: str) -> str:
    """Return a reply without the model's thinking, and without the tokens that end a turn.

    If the thinking never ends, nothing after it is left.
    """
    text = reply[[0, *(tag.end() for tag in THOUGHT_ENDS.finditer(reply))][-1] :]
    if begun := THOUGHT_BEGINS.search(text):
        text = text[: begun.start()]
    return END_TOKENS.sub("\n", text)


def thinks_on(reply: str) -> bool:
    """Return whether a thought begins that never ends."""
    begun = [tag.start() for tag in THOUGHT_BEGINS.finditer(reply)]
    ended = [tag.end() for tag in THOUGHT_ENDS.finditer(reply)]
    return bool(begun) and begun[-1] >= max(ended, default=0)


# -- Before a verdict, in its line -----------------------------------------------------------------

# Not the end of "e.g.".
SENTENCE_END = re.compile(r"(?<=[^.][^.][.!;])(?<!\bex\.)\s+|(?<=[。！；])")
BULLET = re.compile(r"\A\W*(?:\d{1,2}[.)]\s|[a-z]\)\s|\[x\])")
LEAD_IN = re.compile(
    r"(?:in|to) (?:conclusion|conclude|summary|summari[sz]e|short|sum up|the end)"
    r"|with (?:that|this)(?: in mind)?|after (?:comparing|weighing|reading|considering)"
    r" (?:both|the two|all|them|everything)(?: answers)?|all things considered|as such"
    r"|(?:i|we|i'd|i'll|let's) (?:(?:therefore|thus|will|am) )?"
    r"(?:conclude|decide|end|judge|finish|give|go|chose|choose|picked|selected|prefer|confident)"
    r"(?: with| in| this| it| that){0,2}|here (?:is|are)|(?:a|the) tie"
    r"|the (?:better|best|winning)\b|"
    r"\b(?:(?:my |the )?final answer|(?:my|the) answer|my|our|the|this|is|so|and|then|sure|ok|okay"
    r"|thus|therefore|hence|overall|finally|final|last|accordingly|consequently|verdict|decision"
    r"|judge?ment|conclusion|evaluation|winner|answer|because|step \d{1,2}"
    r"|assessment|result|choice|preference|score|rating|grade|level|ranking|order"
    r"|(?:my |the |verdict )?line|(?:json )?(?:object|output)|json|vote|boxed)\b|->|=>"
    # "my verdict", "final", "therefore" elsewhere
    r"|\b(?:mein\w*|das|lautet|ist|daher|somit|also|folglich|endgültig\w*|urteil|ergebnis|fazit"
    r"|bewertung|mon|ma|le|est|donc|ainsi|par conséquent|en conclusion|verdict|voici|évaluation"
    r"|mi|el|es|por (?:lo )?tanto|así que|en conclusión|veredicto|final|conclusión|meu|o|é"
    r"|portanto|logo|veredito|conclusão|il|mio|quindi|pertanto|dunque|verdetto|finale|conclusione"
    r"|итог\w*|вердикт|поэтому|таким образом|вывод|النتيجة|الحكم|النهائي|अंतिम|निर्णय|निष्कर्ष)\b"
    r"|最终|最終|我的|判决|判定|裁决|结论|結論|排名|评分|評価|评价|以下是|综上所述?|因此|所以|したがって|よって|なので"
    r"|최종|판정|결론|따라서|점수|是|为|は"
)
REASON = re.compile(
    r"\A(?:since|because|considering|given|weighing|taking|having|based on|after)\b"
    r"[^.:;!?]{1,200}[,:]"
)
CLAUSE_END = re.compile(r"[,:;]|[-–—=]+>?\s|\band\b")
CONSEQUENCE = re.compile(r"\A.{0,200}[,;–—-]\s*(?=(?:so|thus|therefore|hence)\b)")
DENIES = re.compile(
    r"\b(?:if|unless|would|could|might|without|under|as|i|threat|must)\b|\bsay|\btell|\bwant"
)


def is_lead_in(words: str) -> bool:
    """Return whether `words`, just before a verdict in its line, only lead to it."""
    words = BULLET.sub("", SENTENCE_END.split(words)[-1]).strip()
    reason = REASON.match(words) or CONSEQUENCE.match(words)
    stated = words.startswith(("since", "because")) or not DOUBTS.search(words)
    if reason and stated and not DENIES.search(reason[0]):
        words = words[reason.end() :]
    ends = [0] if OWN not in words else [0, *(end.end() for end in CLAUSE_END.finditer(words))]
    return any(
        not DECORATION.sub("", LEAD_IN.sub(" ", words[end:]))
        and (not end or is_harmless("choice", "", words[:end]))
        for end in ends
    )


# -- After a verdict -------------------------------------------------------------------------------

# The words with which a text is praised. What speaks for an answer begins with one of them: no list
# of the words with which texts are blamed could be complete.
QUALITY = (
    r"(?:better|best|winn\w+|superior|strong(?:er)?|prefer\w+|correct|accurate|complete|helpful"
    r"|clear(?:er|est)?|right|thorough|detailed|informative|concise|relevant|good|great|excellent"
    r"|fair|well|rich\w*|simpler|shorter|precise|equal|honest|polished|practical|safer?"
    r"|organi[sz]ed|structured|natural|balanced|specific|useful|readable|eas(?:y|ier)|nuanced"
    r"|persuasive|coherent|consistent|comprehensive|direct|factual|friendl\w+|ahead|grounded|true"
    r"|faithful|valid|sound|logical|on point|polite)\b"
)
MORE = r"(?:(?:\w+ly|also|even|by|far|much|a bit|a little|more|most|the|an?|very|best|better) )"
DOES = (
    r"(?:covers|gives(?! up)|provides|explains|addresses|answers|follows|includes|uses|cites"
    r"|contains|shows|presents|offers|meets|has|reflects|rests on|matches|wins|stays|demonstrates"
    r"|adds|avoids|backs|quotes|sets out|succeeds|sticks|treats|captures|catches|considers"
    r"|deserves (?:the|to) win|describes|edges|excels|fits|fixes|gets (?:it|the|to)"
    r"|goes (?:into|further|beyond)|handles|identifies|illustrates|keeps|lists"
    r"|makes (?:the|its|a|sense)|mentions|outperforms"
    r"|(?:reads|sounds|works|does|feels|is) (?:far |much |a )?(?:more|better|well)|respects|solves"
    r"|supports|takes (?:the|its|into)|translates|understands|walks|writes|comes (?:out|first)"
    r"|is (?:based|grounded) on|is \w{3,}er)\b"
)
VERDICT = r"(?:verdict|judge?ment|decision|choice|assessment|conclusion|preference|score|rating)"
REASONS = r"(?:\w+ )?(?:reason(?:ing|s)?|justification|explanation|rationale|strengths?|note)"
THE_TEXT = r"(?:answer|response|option|candidate|assistant|model|winner)s?"
IS = r"(?:is|was|are) (?!what|who|where|how|all|just)"
# What the verdict's name may be followed by. Any verb that ends in "s" is in the present tense.
TAIL = (
    r"[\s*_`,.():\d–—-]*(?:(?:because|since) (?!it\b)|due to|given|based on|by (?:a|far)"
    r"|for (?:its|being|the)|with (?:\w+ )?confidence|on balance|as (?:both|the)|over\W*\Z"
    r"|points?\b|stars?\b|分)|[\s*_`'\"”’)\],]+(?:(?:because|since|as) it )?"
)
PRAISED = re.compile(rf"{TAIL}{MORE}{{0,3}}(?:{IS}{MORE}{{0,4}}{QUALITY}|{DOES})")
DESCRIBED = re.compile(rf"{TAIL}{MORE}{{0,3}}(?:{IS}{MORE}{{0,3}}\w+|(?!is|was)\w+[a-rt-z]s\b)")
# A sentence that speaks of the verdict without its name.
EXPLAINS = re.compile(
    r"(?:that|this) is because |(?:and |overall,? |because |since |as )?"
    rf"(?:(?:it|which|(?:the|this|that) (?:chosen |preferred )?{THE_TEXT})"
    rf" {MORE}{{0,3}}(?:{DOES}|(?:is|was) {MORE}{{0,4}}{QUALITY}|'s {MORE}{{0,4}}{QUALITY})"
    rf"|it's {MORE}{{0,4}}{QUALITY}|its (?:\w+ ){{1,3}}(?:is|are) {MORE}{{0,3}}{QUALITY}"
    rf"|(?:this|my|the) {VERDICT} {DOES}|(?:(?:because|since) (?!it )|due to |given )"
    rf"|{REASONS}[\s*_]*:|overall,? (?:an? ){MORE}{{0,2}}{QUALITY})"
)
# A remark beside a verdict, which needs no sentence: "more accurate and complete".
REMARK = re.compile(rf"{MORE}{{0,3}}{QUALITY}|\w+ly\W*\Z|(?:it {MORE}?{DOES}|why|{DOES}) ?")
AMOUNTS = re.compile(rf"{REMARK.pattern}|(?:much|far|more|mostly|most|fully) \w|it \w+[a-rt-z]s\b")
# What may follow a score without a stop: "4 errors" is none.
AMOUNT = re.compile(r"\W*(?:because|since|due to|given|based on|for|with|points?\b|stars?\b|分)")
CLOSES = re.compile(
    r"(?:(?:very |confidence |level|score|certainty|and |is |my |of |in |the |this )*"
    r"(?:confidence|certainty|high|moderate|medium|low|full|strong|order|\d{1,3}(?:\.\d+)?\s?%?"
    r"|(?:out )?of \d+|/\s?\d+|[-:=*_ ])+"
    rf"|(?:(?:this|that) (?:concludes|completes|ends) )?(?:(?:the )?end(?: of)? ?)?(?:my |the )?"
    rf"(?:{VERDICT}|evaluation|comparison|reply|message)?(?: (?:is )?complete)?|done|json"
    r"|cheers|(?:best|kind) regards|your judge)[\s*_`.!)\]]*"
)
FORM = "best to worst"
SENTENCES = re.compile(r"\.(?!\d)|[!;。！；\n]|\s[–—-]+\s")
STOPS = re.compile(r"\.(?!\d)|[!;。！；\n]")
ITEM = re.compile(r"\A\s*(?:[-*•]|\d{1,2}[.)])\s")
HEADING = re.compile(rf"{REASONS}\W*:\W*\Z")
CONCEDES = re.compile(
    rf"(?:(?:while|although|though) )?both (?:{THE_TEXT} )?(?:are|have|were) [^.!?]{{1,80}},"
    rf" (?:but )?(?={OWN})"
)
# What makes more or less of the verdict that it follows: "4.5", "A-", "3-4", "B >".
GLUED = re.compile(r"[-+±~%^<>=×÷/&]|'\w|\W*\d|\W*[>=]|\s*[/+&]")
BARE_WORD = re.compile(r"[\s*_`]*\s[\s*_`]*(?=\w)|(?=分)")


def is_harmless(kind: Kind, after: str, closing: str) -> bool:
    """Return whether the words after a verdict in its line, and those of the lines below it, leave
    it as it is. Where they name the verdict, they have OWN instead."""
    after, closing = (
        CONCEDES.sub("", POLITE.sub(" ", text.replace(FORM, ""))) for text in (after, closing)
    )
    both = f"{after} {closing}"
    if GLUED.match(after) or any(words.search(both) for words in (DOUBTS, *AGAINST_KIND[kind])):
        return False
    if BARE_WORD.match(after):
        if kind == "score" and not AMOUNT.match(after):
            return False
        after = f"{OWN} {after.lstrip()}"
    tail, remark = (PRAISED, REMARK) if kind in ("choice", "order") else (DESCRIBED, AMOUNTS)
    first, *others = STOPS.split(after)
    beside = [part for part in re.split(r"\s[–—-]+\s|[(),:]", first) if part]
    is_explained = _only_explains(first, tail) or all(
        _only_explains(part, tail) or remark.match(_begun(part)) for part in beside
    )
    if not is_explained or not all(_only_explains(part, tail) for part in others):
        return False
    listed = False
    for line in closing.split("\n"):
        item = bool(ITEM.match(line))
        if not (listed and item) and not all(
            _only_explains(part, tail) for part in SENTENCES.split(line)
        ):
            return False
        listed = (listed and item) or bool(HEADING.match(_begun(line)))
    return True


def _begun(sentence: str) -> str:
    return DECORATION.sub("", sentence, count=1)


def _only_explains(sentence: str, tail: re.Pattern[str]) -> bool:
    words = _begun(sentence)
    if not words or CLOSES.fullmatch(words) or EXPLAINS.match(words):
        return True
    before, named, after = words.partition(OWN)
    speaks = tail.match(after) or DECORATION.fullmatch(after)
    return bool(named and speaks) and not DECORATION.sub("", LEAD_IN.sub(" ", before))


# -- Refusals --------------------------------------------------------------------------------------

# In the first words of a reply, with straight apostrophes.
REFUSALS = re.compile(
    r"\b(?:i|we)(?: can't| cannot| can not| won't| will not| am unable to|'m unable to"
    r"|'re unable to|'m not able to| am not able to| must decline to| have to decline| decline to"
    r"|'d rather not| am not comfortable|'m not comfortable| do not feel comfortable"
    r"| don't feel comfortable| must refuse to| refuse to)"
    r"(?: in good conscience)? (?:assist|help|comply|judg|compar|evaluat|provid|do that|do this|rat"
    r"|engag|continu|answer|fulfil|discuss|choos|participat|respond|proceed|process|complet|grad"
    r"|score)"
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
