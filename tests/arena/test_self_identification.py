"""A response that says who wrote it is flagged; one that speaks of models or makers is not."""

import json
from time import thread_time

import pytest

from arena.self_identification import EDGE, self_identifies

GIVES_AWAY = [
    "As Claude, I cannot browse the web.",
    "I am ChatGPT, a large language model.",
    "I’m ChatGPT and I am here to help.",
    "My name is Claude.",
    "My name is **Gemini**, and I can help with that.",
    "You can call me Claude.",
    "Hello there! I am Claude, an AI assistant created by Anthropic.",
    "I'm Claude 2.1, made for long texts.",
    "I am Claude Sonnet.",
    "As an AI developed by OpenAI, I don't have personal opinions.",
    "Please note that as an AI developed by OpenAI, I can't execute requests.",
    "As a language model AI developed by OpenAI, my responses are generated.",
    "As an AI modeled after OpenAI's GPT-3, I do not have opinions.",
    "As an AI assistant created by Anthropic to be helpful and honest, I do not sing.",
    "I'm an AI assistant created by Anthropic to be helpful, harmless, and honest.",
    "I am a large language model, trained by Google.",
    "I am an AI model from Mistral AI.",
    "I was trained by Meta.",
    "I was originally created by Microsoft.",
    "I am an assistant called Llama.",
    "We are friends, but my creators at Anthropic taught me otherwise.",
    "ChatGPT is a model from OpenAI and I am very grateful they created me!",
    "I am OpenAI's language model.",
    "I am based on GPT-4.",
    "I'm an AI language model, and I am powered by Mixtral.",
    "ChatGPT: Here is the list you wanted.",
    "I am an AI\nassistant created\nby Anthropic.",
    "Ich bin ChatGPT, ein Sprachmodell.",
    "Je suis Claude, un assistant.",
    "我是ChatGPT，一个语言模型。",
]

STAYS_BLIND = [
    "",
    "Compare Claude Monet and Édouard Manet.",
    "I am Claude Monet, and I paint water lilies.",
    "The book by Jean-Claude Devèze is out of print.",
    "OpenAI was founded in 2015.",
    "As OpenAI grew, its costs grew too.",
    "ChatGPT can assist in generating creative content.",
    "I'm a Gemini, born in June.",
    "Gemini is the third sign of the zodiac.",
    "As an AI language model, I don't have personal opinions.",
    "I am an AI and cannot visit Google.",
    "I would recommend Google Scholar for this.",
    "I log in using my Google account.",
    "My favourite phone is made by Google.",
    "As of 2020, the tool developed by Google was free.",
    "I am similar to ChatGPT, but not the same.",
    "While I may not have the same capabilities as ChatGPT, I am designed to help.",
    "As a Google subsidiary, YouTube benefits from its brand.",
    "I'm sorry, but I cannot use Microsoft Word.",
    "A llama is a domesticated animal; as a llama, I spit.",
    "The mistral is a cold wind. I am from Marseille.",
    "The meta analysis was made by me.",
    "I was helped by Amazon's support.",
]


@pytest.mark.parametrize("text", GIVES_AWAY)
def test_a_response_that_says_who_wrote_it_is_flagged(text):
    assert self_identifies(text)


@pytest.mark.parametrize("text", STAYS_BLIND)
def test_a_mere_mention_is_not_flagged(text):
    assert not self_identifies(text)


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("I am Harbour-7b, at your service.", True),
        ("I am harbour-7b, at your service.", True),
        ("As Formal, I write without contractions.", True),
        ("I am formal in tone.", False),
        ("Harbour-7b is a model that was released in May.", False),
        ("I am Harbour-7bis.", False),
    ],
)
def test_the_candidates_name_counts_where_said_of_oneself(text, flagged):
    assert self_identifies(text, names=["Harbour-7b", "Formal", "", "x"]) is flagged


@pytest.mark.parametrize("name", ["a(b", "a[", "a\\b", "a|", "(?i)", "é."])
def test_names_are_taken_literally(name):
    assert self_identifies(f"I am {name}, yes.", names=[name])
    assert not self_identifies("I am happy.", names=[name])


@pytest.mark.parametrize(
    "piece",
    [
        "as an AI made by OpenAI ",
        "I am an AI made by Google ",
        "as ",
        "Claude ",
        "I'm OpenAI",
        "my creators the ",
        "\n",
    ],
)
def test_a_text_of_a_megabyte_takes_well_under_a_second(piece):
    text = piece * (1_000_000 // len(piece))
    started = thread_time()
    self_identifies(text, names=["Harbour-7b"])
    assert thread_time() - started < 0.9


def test_a_long_text_is_read_at_its_start_and_at_its_end():
    long = "The harbour is deep. " * 50_000
    assert not self_identifies(long)
    assert self_identifies(f"I am ChatGPT. {long}")
    assert self_identifies(f"{long}I am ChatGPT.")


def test_both_ends_of_a_long_text_are_not_one_sentence():
    start, end = " I am ".rjust(EDGE, "x"), "Claude, ".ljust(EDGE, "x")
    assert self_identifies(f"{start}{end}")
    assert not self_identifies(f"{start}{'x' * 100}{end}")


@pytest.mark.slow
@pytest.mark.data
def test_real_answers_are_rarely_flagged(data_dir):
    lines = (data_dir / "prompt-variants/responses.jsonl").read_text().splitlines()
    flagged = sum(self_identifies(json.loads(line)["text"]) for line in lines)
    assert 40 <= flagged <= 65
