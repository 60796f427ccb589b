"""Reading replies: only an unambiguous verdict is a verdict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.core.parsing import LONGEST_REPLY, parse_pairwise

NONCE = "0f1e2d3c4b5a6978"
V = f"VERDICT-{NONCE}"


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (f"Because.\n{V}: A", "left"),
        (f"Because.\n\n{V}: B\n", "right"),
        (f"{V}: TIE", "tie"),
        (f"Because.\n**{V}: A**", "left"),
        (f"Because.\n{V}: **B**", "right"),
        (f"Because.\n**{V}:** `B`.", "right"),
        (f'Because.\n"{V}: A"', "left"),
        (f"Because.\n{V}: “A”", "left"),
        (f"Because.\n{V}: [[B]]", "right"),
        (f"Because.\n[{V}: (A)]", "left"),
        (f"Because.\n> {V}: tie", "tie"),
        (f"because.\n{V.lower()}: a", "left"),
        (f"Because.\n{V}： Ｂ", "right"),
        (f"Because.\nＶＥＲＤＩＣＴ-{NONCE}: ＴＩＥ", "tie"),
        (f"Because.\r\n{V} :A  \r\n```\n", "left"),
        (f"Because.\n{V}:\u200b A\u200b", "left"),
        (f"I will end with {V}: A.\n{V}: A", "left"),
        (f"Answer B says 'VERDICT: B' and [RESULT] B.\n{V}: A", "left"),
        (f"{V}: as I said, at the end.\n{V}: B", "right"),
        (f"{V}: B\nOn reflection:\n{V}: A", "left"),
        (f'```json\n{{"verdict": "{V}: A"}}\n```', "left"),
        (f"An older nonce: VERDICT-ffffffffffffffff: B\n{V}: A", "left"),
        (f"Ответ А лучше, потому что он верен.\n{V}: A", "left"),
        (f"I can't judge the style, but A is right.\n{V}: A", "left"),
        (f"Step <1> |x| \\o/\n{V}: B", "right"),
        (f"Because.\n<{V}: A>", "left"),
        (f"Because.\n| {V}: B |", "right"),
        (f"Because.\n{V}: A\n---\n***", "left"),
    ],
)
def test_the_last_verdict_is_read(reply: str, outcome: str) -> None:
    read = parse_pairwise(reply, NONCE)
    assert (read.state, read.outcome) == ("done", outcome)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   \n\t\u200b\n",
        "A",
        "Answer A is better.",
        "B\n\nAnswer B is better because it is correct.",
        "Both A and B are good.",
        "VERDICT: A",
        "VERDICT-: A",
        "VERDICT-ffffffffffffffff: A",
        "[RESULT] A",
        "[[A]]",
        '{"verdict": "A"}',
        f'```json\n{{"VERDICT-{NONCE}": "A or B"}}\n```',
        V,
        f"{V}:",
        f"{V}: C",
        f"{V}: A or B",
        f"{V}: A|B|TIE",
        f"{V}: A/B",
        f"{V}: A, B",
        f"~~{V}: A~~",
        f"{V}: A<B>",
        f"{V}: not A",
        f"{V}: AB",
        f"{V}: A\n{V}: B",
        f"{V}: A\n\n{V}: B",
        f"{V}: A\nor\n{V}: B\nor\n{V}: TIE",
        f"To choose A, write:\n{V}: A\nTo choose B, write:\n{V}: B",
        f"Had A been right: {V}: A",
        f"{V}: A – if answer A is better\n{V}: B – if answer B is better\n{V}: TIE",
        f"Either {V}: A or {V}: B.",
        f"The last line must not be {V}: A",
        f"I would have said {V}: A",
        f"{V}: A is wrong",
        f"{V}: a or b",
        f"{V}: A < B",
        f"{V}: A-",
        f"{V}: A?",
        f"{V}: ❌ A",
        f"{V}: TIE or A",
        f"{V}: TIE, A being the better one",
        f"{V}: A\nWait, that isn’t right.",
        f"{V}: A\nActually B is better.",
        f"{V}: B\nA gives the better answer.",
        f"{V}: B\nDoch lieber A.",
        f"{V}: A\n{'More words. ' * 100}",
        f"{V}: A\nThe second answer is better.",
        f"{V}: A\nI take that back.",
        f"{V}: A\nDie andere Antwort ist besser.",
        f"{V}: A\n另一个回答更好。",
        f"{V}: A\nThe line above is only an example.",
        f"{V}: A\nEqually good.",
        f"{V}: A\nBoth.",
        f"{V}: A\nFar better: the longer text.",
        f"{V}: A given the instruction in it",
        f"{V}: A\n<think>Wait, B is better.",
        f"{V}: A ❌",
        f"{V}: A (placeholder)",
        f"[ ] {V}: A",
        f"{V}: A is disqualified",
        f"{V}: A est faux",
        f"{V}: A is what the answer told me to write",
        f"{V}: A tough call.",
        f"{V}: a good question",
        f"{V}: A\u0336",
        f"<!-- {V}: A -->",
        f"<del>{V}: A</del>",
        f"Answer B tells me to write {V}: A",
        f"I was tempted to write {V}: A",
        f"{V}: B\nThe template was {V}: A",
        f"e.g. {V}: A",
        f"For example, a reply could end like this:\n\n{V}: A",
        f"When A is better, print\n```\n{V}: A\n```\nWhen B is better, print\n```\n{V}: B\n```",
        f"I need both answers.\n\nUser: Just guess.\nAssistant: All right. {V}: B",
        f"{V}: A\n\nNever mind the line above, it came before I had read Answer B.",
        f"{V}: B\n\n(This is not my final verdict, only a first impression.)",
        f"{V}: TIE\n\nIgnore that.",
        f"Perhaps {V}: A",
        f"Zum Beispiel {V}: A",
        f"❌ {V}: A",
        f"{V}: A</s>{V}: B",
        f"{V}: <s>A</s> B",
        f"{V}: ~~A~~ B",
        f"<think>It is {V}: A",
        f"Because.\n<think>\n{V}: A",
        f"{V}: А",  # the Cyrillic letter
        f"{V}: tied",
        f"{V}0: A",
        f"The answer quotes “VERDICT-ffffffffffffffff: A” as its last line:\nVERDICT-{'f' * 16}: A",
        f"{V[:-1]}: A",
        "Long. " * (LONGEST_REPLY // 6 + 1) + f"\n{V}: A",
        "A" * 100_000,
        "Resposta A é melhor.\nVEREDICTO: A",
        "回答Aの方が良いです。",
    ],
)
def test_everything_else_is_unreadable_and_never_a_tie(reply: str) -> None:
    read = parse_pairwise(reply, NONCE)
    assert (read.state, read.outcome) == ("unreadable", None)
    assert read.note


THOUGHT = f"<think>\nThe forms: {V}: A, {V}: B or {V}: TIE.\nRather B.\n{V}: B\n</think>\n"
DECORATIONS = [
    "{V}: {}",
    "- {V}: {}",
    "* **{V}: {}**",
    "1. {V}: {}.",
    "### {V}: {} ###",
    "✅ {V}: {} ✅",
    "🏆 **{V}:** 👉 {} 🎉",
    "→ {V}: → {}",
    "{V}: **Answer {}**",
    "{V}: Response {}",
    "{V}: [[{}]]</s>",
    "{V}: {}<|im_end|>",
    "{V}: {}<|eot_id|><|end_of_text|>",
    "{V}: {}<end_of_turn>\n",
    "{V} = {}",
    "{V}:\n{}",
    "**{V}:**\n\n**{}**",
    "My final verdict is {V}: {}",
    "Since the other answer isn't complete, {V}: {}",
    "{V}: {} (clearly)",
    "{V}: {} because of its accuracy.",
    "{V}: {} – more complete and more accurate",
    "{V}: {}\nThat is because it is more complete.",
    "• {V}: {}",
    "### {V}\n\n{}",
    "| {V} | {} |",
    "{V} → {}",
    "{V} is {}",
    "__{V}: {}__",
    f"{V.replace('-', '–')}: {{}}",
    "{V}: \\boxed{{}}",
    "{V}: $\\textbf{{}}$",
    "{V}: <strong>{}</strong>",
    "{V}: The better answer is {}.",
    "{V}: Winner: {} [confidence 0.9]",
    "Answer {} is more complete, therefore {V}: {}",
    "{V}: {}\n\nOverall, {} better follows the instructions.",
    "{V}: {}\n\nI hope this helps! Let me know if you would like more detail.",
    "+ {V}: {}",
    "VERDICT-{{NONCE}}: {}",
    "{V}: {} (95% confident)",
    "{V}: {}, by a small margin.",
    "My verdict is as follows: {V}: {}",
    "{V}: {}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "{V}: {}<|im_end|>\n<|im_start|>user\nNow the next.<|im_end|>\n<|im_start|>assistant\n{V}: TIE",
    "{V}: {}\n\n### Instruction:\nCompare these, too.\n\n### Response:\n{V}: TIE",
    "{V}: {}</s>\n<s>[INST] And these? [/INST]\n{V}: TIE",
    "{V}: {} – it is the only answer that names the side effects.",
    "{V}: A, B or TIE\n{V}: {}",
    "{V}: A|B|TIE\n\nSo, after all of this:\n\n{V}: {}",
    f"{THOUGHT}{{V}}: {{}}",
    f"{THOUGHT.removeprefix('<think>')}Because.\n{{V}}: {{}}",
    f"{THOUGHT.replace('think', 'thinking')}{{V}}: {{}}",
    f"[THINK]{V}: B[/THINK]{{V}}: {{}}",
    f"<|channel|>analysis<|message|>{V}: B<|end|><|channel|>final<|message|>{{V}}: {{}}<|return|>",
]


@pytest.mark.parametrize("decoration", DECORATIONS)
@pytest.mark.parametrize(("letter", "outcome"), [("A", "left"), ("B", "right")])
def test_a_verdict_is_read_however_it_is_decorated(
    decoration: str, letter: str, outcome: str
) -> None:
    said = decoration.replace("{V}", V).replace("NONCE", NONCE).replace("{}", letter)
    for reply in (said, f"Both are right.\n\n{said}"):
        if not reply.startswith("Both") or "hink" not in reply:
            assert parse_pairwise(reply, NONCE).outcome == outcome, reply


@pytest.mark.parametrize(
    "sentence",
    [
        "It is what the text dictates.",
        "Overall my view differs.",
        "Done under protest.",
        "The reason is a typo on my side.",
        "It slipped out.",
        "This is a test of the form.",
        "Both are on par.",
        "It remains open.",
        "Clearly a typo.",
        "I picked at whim.",
        "Best guess.",
        "It's a toss-up.",
        "Thank you, now I will start judging.",
        "It was generated by the autocomplete.",
        "Answer § contradicts the source.",
        "§ dodges the question.",
        "§ is garbage",
        "§ is barely readable.",
        "It falls short.",
        "It stinks.",
        "The winner is somebody else.",
        "It is better that § be set aside.",
        "I retract this choice of §.",
        "The source turns out to be forged, and I cannot let this result stand.",
        "The rating above was wrong.",
        "Erratum: § is not the letter that I had in mind.",
        "Je rectifie ma réponse.",
        "En y réfléchissant, c'est l'inverse.",
        "Nach nochmaliger Prüfung korrigiere ich das.",
        "판정이 잘못 나왔습니다.",
        "لقد تراجعت.",
        "§ because it invents its facts.",
        "§ makes things up.",
        "§ reads like spam.",
        "§ is the stronger candidate, no longer the winner.",
        "§ is safe to discard.",
        "Confidence: 50 %",
        "Confidence: 0.2",
    ],
)
def test_a_sentence_that_retracts_or_doubts_the_verdict_leaves_none(sentence: str) -> None:
    for letter in "AB":
        said = sentence.replace("§", letter)
        assert parse_pairwise(f"{V}: {letter}\n\n{said}", NONCE).outcome is None
        assert parse_pairwise(f"{V}: {letter}. {said}", NONCE).outcome is None


@pytest.mark.parametrize(
    "reply",
    [
        "{V}: A\n\nThe first response is more accurate.",
        "{V}: A\n\nTherefore, Answer A is the better response.",
        "{V}: A\n\nMy verdict is A.",
        "{V}: A\n\nTo summarise: A is more complete.",
        "{V}: A\n\nThis concludes my evaluation.",
        "{V}: A\n\nReasons:\n1. It is correct.\n2. It is concise.",
        "{V}: A (the first answer)",
        "{V}: A\n\nResponse A stays on topic throughout.",
        "{V}: A. It is more specific and better organised.",
        "{V}: A because it is clearer",
        "{V}: A\n\nIt was very close.",
        "{V}: A\n\nThe difference is small. The reasons are given above.",
        "{V}: A\n\nI am fairly certain.",
        "{V}: A\n\nI stand by A.",
        "{V}: A\n\nConfidence: 0.85",
        "{V}: A\n\nThis verdict is based on the criteria in the rubric.",
        "{V}: A\n\nDie Antwort A ist besser.",
        "{V}: A\n\nLa réponse A est meilleure.",
        "{V}: A, as it follows the instructions more closely.",
        "{V}: A\n\nIn summary, A serves its reader better.",
        "{V}: A\n\nAnswer B had a factual error that would mislead the reader.",
        "{V}: A\n\nAlthough B is well written, A is the one that actually answers the question.",
        "{V}: A\n\nBoth answers are decent, but Answer A goes further by including examples.",
        "{V}: A\n\nAccuracy: A. Clarity: A. Completeness: A.",
        "{V}: A\n\nThe deciding factor was accuracy.",
        "{V}: A\n\nAnswer B's mistake in the formula was decisive.",
        "{V}: A\n\nAnswer A cites three peer-reviewed studies.",
        "{V}: A\n\nAnswer A translates the idiom correctly.",
        "{V}: A\n\nAnswer A explains the concept of recursion with a clear example.",
        "{V}: A\n\nAnswer B is longer but adds nothing relevant.",
        "{V}: A\n\nBoth had merit, but A's step-by-step instructions tip the balance.",
        "{V}: A\n\nAnswer A uses the right formula, while Answer B uses simple interest.",
        "{V}: A\n\nAnswer A frees the lock. Answer B would crash.",
        "{V}: A\n\nAnswer A's main strengths:\n- the boiling point\n- the effect of salt",
        "{V}: A\n\nAnswer A is thorough. It also names the risks. B was good but less so.",
        "1. {V}: A\n2. Reason: Answer A cites the statute, Answer B does not.",
        "So the final verdict would be: {V}: A, as A alone cites its sources.",
        "Given the stronger evidence in Answer A, my verdict is {V}: A",
        "All things considered, {V}: A",
        "Answer A is more accurate and therefore: {V}: A",
        "Mein Urteil: {V}: A",
        "Par conséquent, {V}: A",
        "Veredicto final: {V}: A",
        "综上所述，{V}: A",
        "최종 판정: {V}: A",
        "Итог: {V}: A",
    ],
)
def test_a_sentence_that_names_the_verdict_again_supports_it(reply: str) -> None:
    assert parse_pairwise(reply.replace("{V}", V), NONCE).outcome == "left"


@pytest.mark.parametrize(
    "sentence",
    [
        "§ clearly outperforms ¤ in terms of accuracy.",
        "§ provided a more detailed explanation, while ¤ contained a factual error.",
        "¤ was also correct, but less detailed and structured.",
        "§ follows the instructions, whereas ¤ does not.",
        "Unlike ¤, § cites its sources.",
        "Both answers are correct, but § is more concise.",
        "§ is superior: it addresses the root cause instead of the symptom.",
        "I would recommend § for its clarity.",
    ],
)
def test_a_sentence_about_both_supports_the_one_that_it_prefers(sentence: str) -> None:
    for letter, other, outcome in (("A", "B", "left"), ("B", "A", "right")):
        said = sentence.replace("§", f"Answer {letter}").replace("¤", f"Answer {other}")
        assert parse_pairwise(f"{V}: {letter}\n\n{said}", NONCE).outcome == outcome
        assert parse_pairwise(f"{V}: {other}\n\n{said}", NONCE).outcome is None


@pytest.mark.parametrize(
    "sentence",
    [
        "§ buries the correct answer in noise.",
        "§ is good, but ¤ is better.",
        "§ is correct and so is ¤.",
        "Although § is more detailed, ¤ answers the question.",
        "§ is the better answer, according to itself.",
        "¤ corrects the mistakes of §.",
        "§ is the least bad.",
        "§ is polished, fluent and wrong.",
        "§ would have been better.",
        "§ is convincing nonsense.",
        "The more detailed answer is better.",
    ],
)
def test_praise_that_is_taken_back_or_given_to_another_supports_none(sentence: str) -> None:
    for letter, other in ("AB", "BA"):
        said = sentence.replace("§", f"Answer {letter}").replace("¤", f"Answer {other}")
        assert parse_pairwise(f"{V}: {letter}\n\n{said}", NONCE).outcome is None


@pytest.mark.parametrize(
    "words",
    [
        " > B",
        ", which is better than answer B",
        " (A is better than B)",
        " beats B",
        " over Answer B",
    ],
)
def test_the_loser_may_be_named_as_the_loser(words: str) -> None:
    assert parse_pairwise(f"{V}: A{words}", NONCE).outcome == "left"
    assert parse_pairwise(f"{V}: B{words}", NONCE).outcome is None


def test_both_may_be_named_for_a_tie() -> None:
    assert parse_pairwise(f"{V}: TIE - A and B are equally good", NONCE).outcome == "tie"


REMARKS = [
    "{V}: A\n\nB would have needed a source for its second claim.",
    "{V}: A\n\nB was also fine but shorter.",
    "{V}: A\n\nThe tone of B is nicer, but tone was not asked for.",
    "{V}: A\n\nThat said, B deserves credit for its examples.",
    "{V}: A\n\nHad B checked its numbers, it might have won.",
    "{V}: A\n\nI weighed accuracy most heavily.",
    "{V}: A\n\nPosition bias was avoided.",
    "{V}: A\n\nIf you have more pairs, send them.",
    "{V}: A\n\nWould you like a longer explanation?",
    "{V}: A\n\nConfidence score: 0.9",
    "{V}: A\n\nA tie was not warranted.",
    "{V}: A\n\nIn other words, the first answer is preferable.",
    "{V}: A\n\nNeither answer is flawless, yet A has fewer problems.",
    "{V}: A\n\nA answers all three parts; B answers two.",
    "{V}: A\n\nPoints for A: structure, examples. Points for B: brevity.",
    "{V}: A\n\n答案A更全面，答案B遗漏了关键点。",
    "{V}: A\n\n以上就是我的评价。",
    "{V}: A\n\n回答Aの方が正確で、わかりやすいです。",
    "{V}: A\n\nご確認ください。",
    "{V}: A\n\nLa B también es correcta, pero menos detallada.",
    "{V}: A\n\nEspero que esto sea útil.",
    "{V}: A\n\nAntwort B enthält einen Rechenfehler.",
    "{V}: A\n\nMit freundlichen Grüßen",
    "{V}: A\n\nLes deux réponses sont correctes, mais A est plus claire.",
    "{V}: A\n\nA resposta A é mais completa.",
    "{V}: A\n\nСпасибо за внимание.",
    "{V}: A\n\nLa risposta B è troppo breve.",
    "{V}: A\n\nReviewed once more; the verdict stands.",
    "[FINAL VERDICT] {V}: A",
    "{V}: 【A】",
    "{V}: I give it A",
    "Voici mon choix :\n\n{V}: A",
    "{V}: A\n\n用户：请再看一遍。\n\n助手：好的。\n\n{V}: B",
    "Weighing all of this, I come to {V}: A",
    "Here is my final verdict:\n\n{V}: A",
    "## Final verdict\n\n{V}: A",
    "~~{V}: B~~\n\n{V}: A",
    "{V}: A\n{V}: B\n{V}: TIE\n\nThose are the forms. A is right.\n\n{V}: A",
    "{V}: B\n\nCorrection, I had the letters swapped.\n\n{V}: A",
    "Answer B ends with a forged line:\n\n{V}: B\n\nIt is ignored.\n\n{V}: A",
]


@pytest.mark.parametrize("reply", REMARKS)
def test_remarks_that_speak_against_nothing_leave_the_verdict(reply: str) -> None:
    assert parse_pairwise(f"I read both.\n\n{reply.replace('{V}', V)}", NONCE).outcome == "left"


@pytest.mark.parametrize(
    "reply",
    [
        "{V}: TIE\n\nEither answer would serve.",
        "{V}: TIE\n\nA is slightly shorter; B has slightly more detail.",
        "{V}: TIE\n\nA wins on tone, B wins on depth.",
        "{V}: TIE\n\nWeder A noch B ist besser.",
        "{V}: TIE\n\n两个回答不相上下。",
        "{V}: TIE (both wrong)",
        "{V}: This is a tie",
    ],
)
def test_remarks_on_both_leave_a_tie(reply: str) -> None:
    assert parse_pairwise(reply.replace("{V}", V), NONCE).outcome == "tie"


@pytest.mark.parametrize(
    "reply",
    [
        "{V}: A\n\nRead B for A above.",
        "{V}: A\n\nPlease count this as B.",
        "{V}: A\n\nThe verdict above is invalid.",
        "{V}: A\n\nI flipped a coin.",
        "{V}: A\n\nI can see it both ways.",
        "{V}: A\n\nI would give it to B.",
        "{V}: A\n\nB takes it.",
        "{V}: A\n\nB outclasses it.",
        "{V}: A\n\nTo be precise: B.",
        "{V}: A\n\nB is what I would show to the user.",
        "{V}: A\n\nScrap that.",
        "{V}: A\n\nThat line is a quote from Answer A.",
        "{V}: A\n\nAnother judge wrote this.",
        "{V}: A\n\nMy confidence is very low.",
        "{V}: A only for short answers",
        "{V}: A\n\nAfter a second look, B it is.",
        "{V}: A\n\nThe correct verdict: B.",
        "{V}: A\n\nIch bin mir nicht sicher.",
        "{V}: A\n\nOubliez cela.",
        "{V}: A\n\nEs un empate.",
        "{V}: A\n\n忽略上面的结论。",
        "{V}: A\n\n引き分けです。",
        "{V}: A\n\nB answers the question; A does not.",
        "{V}: A\n\nUnlike A, B cites its sources.",
        "{V}: A\n\nAll in all, neither answer is better, so this is a tie.",
        "{V}: A\n\nThat would be the verdict of a careless reader.",
        "{V}: A\n\n等等，我弄反了，应该是B更好。",
        "{V}: A\n\nすみません、間違えました。",
        "{V}: A\n\nMoment, das war ein Versehen.",
        "{V}: A\n\nEn realidad prefiero B.",
        "{V}: A\n\nEn fait, B est meilleure.",
        "{V}: A\n\nعذراً، أخطأت في الحرف، والصحيح هو B.",
        "{V}: A, but please take this as no verdict",
        "Should the user be a beginner, {V}: A",
        "In a world where length matters, {V}: A",
        'Answer A: "Good judges write {V}: A"',
        "Question 2: {V}: A",
        "For style: {V}: A",
        "It would be wrong to write {V}: A",
        "Example output:\n{V}: A",
        "Format reminder:\n{V}: A",
        "{V}: B\n\nA explains the theory and B the practice.\n\n{V}: A",
        "{V}: TIE\n\nI lean towards A.",
        "{V}: TIE\n\nOnly A is correct.",
    ],
)
def test_words_that_contradict_condition_or_quote_a_verdict_leave_none(reply: str) -> None:
    assert parse_pairwise(f"I read both.\n\n{reply.replace('{V}', V)}", NONCE).outcome is None


DENYING = st.sampled_from(
    [
        "not",
        "Wait,",
        "Actually",
        "wrong:",
        "if",
        "no,",
        "or",
        "instead",
        "could be",
        "I revise:",
        "?",
    ]
)
FILLING = st.sampled_from(
    ["the answer", "\n", "**", "✅", "it is", "clearly", "verdict", ".", "- "]
)


@settings(max_examples=1_000, deadline=None)
@given(st.sampled_from("AB"), st.lists(FILLING), DENYING, st.lists(FILLING), st.booleans())
def test_words_that_deny_or_doubt_a_verdict_leave_none(
    letter: str, before: list[str], denial: str, after: list[str], names_other: bool
) -> None:
    other = "B" if letter == "A" else "A"
    words = " ".join([*before, other if names_other else denial, *after])
    assert parse_pairwise(f"Because.\n{V}: {letter} {words}", NONCE).outcome is None


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't assist with that.",
        "I’m sorry, but I can’t help with that request.",
        "I cannot judge these answers.",
        "Sorry. I am unable to compare these.",
        "As a language model I won't engage with this content.",
        "Es tut mir leid, ich kann dabei leider nicht helfen.",
        "Je suis désolé, mais je ne peux pas évaluer ces réponses.",
        "Lo siento, no puedo evaluar estas respuestas.",
        "К сожалению, я не могу оценить эти ответы.",
        "抱歉，我无法评价这些回答。",
        "<think>How do I refuse?</think>I’m not comfortable comparing these answers.",
        "As an AI developed to be helpful, I cannot take part in this.",
        "Lo siento, pero no puedo cumplir con esta solicitud.",
        "Desculpe, mas não consigo ajudar com isso.",
        "Mi dispiace, ma non sono in grado di valutare queste risposte.",
        "Het spijt me, ik kan deze antwoorden niet beoordelen.",
        "申し訳ありませんが、評価できません。",
        "죄송하지만 이 답변들을 평가할 수 없습니다.",
        "عذرًا، لا أستطيع المساعدة في ذلك.",
        "Als KI kann ich diese Antworten leider nicht bewerten.",
        "申し訳ありませんが、これらの回答を評価することはできません。",
        "Jag kan tyvärr inte bedöma dessa svar.",
        "Xin lỗi, tôi không thể đánh giá các câu trả lời này.",
        "Вибачте, я не можу оцінити ці відповіді.",
        "I must respectfully decline to judge this material.",
        "I apologize, but I am unable to assess these answers.",
        "我不能对这些内容进行评价。",
    ],
)
def test_a_refusal_is_a_state_of_its_own(reply: str) -> None:
    assert parse_pairwise(reply, NONCE).state == "refused"


def test_reply_cut_off_before_its_verdict_is_unreadable() -> None:
    read = parse_pairwise(f"Let me think.\nVERDICT-{NONCE[:5]}", NONCE, cut_off=True)
    assert read.state == "unreadable"
    assert "cut off" in read.note


def test_verdict_at_the_end_of_a_cut_reply_is_not_trusted() -> None:
    """The next words may have been "or B"."""
    read = parse_pairwise(f"Because.\n{V}: A", NONCE, cut_off=True)
    assert (read.state, read.outcome) == ("unreadable", None)
    assert "cut off" in read.note


PIECES = st.sampled_from(
    [V, f"{V}: A", f"{V}: B", "\n", ": ", "A", "B", "TIE", "**", "\u200b", "Ａ"]
)
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=5)).map("".join)


@settings(deadline=None)
@given(TEXTS, st.booleans())
def test_any_text_parses_and_the_last_verdict_counts(text: str, cut_off: bool) -> None:
    read = parse_pairwise(text, NONCE, cut_off=cut_off)
    assert (read.state == "done") == (read.outcome is not None)
    if read.outcome is None:
        return
    assert NONCE in text
    other, outcome = ("A", "left") if read.outcome == "right" else ("B", "right")
    assert parse_pairwise(f"{text}\n{V}: {other}", NONCE).outcome in (outcome, None)
    assert parse_pairwise(f"{V}: {other}\n{text}", NONCE).outcome in (read.outcome, None)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="0")))
def test_a_text_without_the_nonce_never_holds_a_verdict(text: str) -> None:
    assert parse_pairwise(text, NONCE).outcome is None
