"""Prompts and answers of several messages: stored, shown, judged and generated."""

import json
from time import thread_time

import pytest
from django.urls import reverse

from arena.actors import CLI
from arena.conversations import (
    answer_fields,
    clean_messages,
    own_words,
    prompt_fields,
    split_answer,
    transcript,
)
from arena.files.tables import PROMPTS, RESPONSES, read_table
from arena.generation import messages_for
from arena.markup.conversations import render_conversation
from arena.models import Arena, Candidate, Prompt, Response
from arena.self_identification import masked
from arena.services.ballots import prompt_html, response_html
from arena.services.prompts import revise_prompt, upsert_prompts
from arena.services.responses import upsert_responses
from arena.templatetags.arena_tags import last_question
from arena.validation import InputError
from judges.services.subjects import CallTarget, material_for
from tests.arena.test_markup_hostile import Tags
from tests.factories import make_arena, make_candidate, make_member, make_team

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"a": 1}'}}
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rain?"}]
STEPS = [
    {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]},
    {"role": "tool", "content": "**clear** sky", "tool_call_id": "c1", "name": "weather"},
    {"role": "assistant", "content": "No *rain*."},
]
PAYLOADS = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "</pre></details><script>alert(1)</script>",
    '<a href="javascript:alert(1)">x</a>',
    "[x](javascript:alert(1))",
    '"><svg/onload=alert(1)>',
    "<!--><script>alert(1)</script>-->",
    "<style>*{display:none}</style>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<details open ontoggle=alert(1)>",
]
STRUCTURE = {"div", "section", "details", "summary", "p", "pre", "em", "strong", "br", "span"}


def test_one_text_is_no_conversation():
    assert prompt_fields([{"role": "user", "content": "Why?"}]) == {
        "text": "Why?",
        "messages": None,
    }
    assert answer_fields([{"role": "assistant", "content": "So."}])["messages"] is None


def test_the_text_of_an_answer_is_what_the_assistant_says():
    assert own_words(STEPS) == "Let me look.\n\nNo *rain*."
    written = transcript(STEPS)
    assert "Calls weather({" in written
    assert "Tool result (weather):\n**clear** sky" in written


def test_a_conversation_is_split_before_the_last_turn_of_the_assistant():
    assert split_answer([*ASKED, *STEPS]) == (ASKED, STEPS)
    assert split_answer(ASKED) == (ASKED, [])


def test_parts_of_text_are_joined_and_other_roles_are_read():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert clean_messages([{"role": "developer", "content": parts}]) == [
        {"role": "system", "content": "a\n\nb"}
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "not a list"),
        ([], "has no message"),
        ([1], "message 1 that is a number"),
        ([{"role": "user", "content": " "}], "message 1 that is empty"),
        ([*ASKED, {"role": "robot", "content": "x"}], "message 3 that has the role 'robot'"),
        ([{"role": "user", "content": "x" * 1_000_001}], "the limit is 1,000,000"),
        ([{"role": "user", "content": "x"}] * 1_001, "1,001 messages"),
        ([{"role": "assistant", "content": "", "tool_calls": [{}]}], "without a function's name"),
        ([{"role": "user", "content": "a\0"}], "NUL"),
    ],
)
def test_bad_messages_are_refused_with_their_place(value, words):
    with pytest.raises(InputError, match=words):
        clean_messages(value)


def test_tool_calls_and_results_are_folded():
    html = render_conversation(STEPS)
    tags = [tag for tag, _ in Tags(html).found]
    assert tags.count("details") == 2
    assert "<summary>Calls weather</summary>" in html
    assert "<summary>Tool result (weather)</summary>" in html
    assert "No <em>rain</em>." in html
    assert "**clear** sky" in html
    system = render_conversation(ASKED).partition("</details>")[0]
    assert "Be brief." in system
    assert "Rain?" not in system


@pytest.mark.parametrize("payload", PAYLOADS)
def test_an_injection_in_any_part_of_a_conversation_runs_nowhere(payload):
    call = {"type": "function", "function": {"name": payload, "arguments": payload}}
    messages = [
        {"role": "user", "content": payload, "name": payload},
        {"role": "assistant", "content": payload, "tool_calls": [call]},
        {"role": "tool", "content": payload, "name": payload},
    ]
    for tag, attributes in Tags(render_conversation(messages)).found:
        assert tag in STRUCTURE | {"a"}
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
        assert not (attributes.get("href") or "").startswith("javascript")


def test_an_answer_of_200_steps_renders_in_200_ms():
    step = "I look at **item** `x` and decide:\n\n- one\n- two\n\nThen I go on to the next item."
    messages = []
    for number in range(67):
        messages += [
            {"role": "assistant", "content": step, "tool_calls": [CALL]},
            {"role": "tool", "content": "result " * 200, "name": "search"},
            {"role": "assistant", "content": f"Step {number} is done."},
        ]
    render_conversation(messages)
    started = thread_time()
    html = render_conversation(messages[:200])
    assert thread_time() - started < 0.2
    assert html.count("data-step") > 200


def test_a_huge_conversation_is_bounded_in_time():
    messages = [{"role": "assistant", "content": "*a* " * 2_000}] * 120
    started = thread_time()
    assert "<pre" in render_conversation(messages)
    assert thread_time() - started < 5


def test_names_are_masked_in_every_part():
    call = {"type": "function", "function": {"name": "ask", "arguments": '{"to": "Claude"}'}}
    steps = [
        {"role": "assistant", "content": "I am Claude.", "tool_calls": [call]},
        {"role": "tool", "content": "made by OpenAI"},
    ]
    written = json.dumps(masked(steps))
    assert "Claude" not in written
    assert "OpenAI" not in written


@pytest.fixture
def arena(db) -> Arena:
    return make_arena(1, 0)


def add_prompt(arena: Arena, **row: object) -> Prompt:
    table = read_table(json.dumps([row]).encode(), columns=PROMPTS)
    assert not table.problems, table.problems
    report = upsert_prompts(arena=arena, rows=table.rows, by=CLI)
    assert not report.problems
    return arena.prompts.order_by("-pk")[0]


def add_answer(candidate: Candidate, **row: object) -> Response:
    table = read_table(json.dumps([row]).encode(), columns=RESPONSES)
    assert not table.problems, table.problems
    upsert_responses(candidate=candidate, rows=table.rows, by=CLI)
    return candidate.responses.get(prompt__external_id=row["prompt_id"])


def test_files_bring_conversations_and_texts_alike(arena):
    prompt = add_prompt(arena, id="c", messages=ASKED)
    assert (prompt.text, prompt.messages) == (transcript(ASKED), ASKED)
    assert add_prompt(arena, id="t", text="Why?").messages is None
    answer = add_answer(arena.candidates.get(), prompt_id="c", messages=STEPS)
    assert (answer.text, answer.messages) == (own_words(STEPS), STEPS)
    assert '<details class="turn turn-tool"' in response_html(answer)


def test_a_csv_cell_may_hold_a_conversation(arena):
    cell = json.dumps(ASKED).replace('"', '""')
    table = read_table(f'id,messages\nc,"{cell}"\n'.encode(), columns=PROMPTS)
    assert table.rows[0].messages == ASKED
    assert not table.rows[0].variables


def test_a_text_beside_other_messages_is_refused(arena):
    row = {"id": "c", "text": "Another", "messages": ASKED}
    table = read_table(json.dumps([row]).encode(), columns=PROMPTS)
    assert "give one or the other" in table.problems[0].sentence


def test_a_new_text_ends_a_conversation_and_a_new_conversation_replaces_the_text(arena):
    prompt = add_prompt(arena, id="c", messages=ASKED)
    prompt = revise_prompt(prompt=prompt, by=CLI, category="weather")
    assert prompt.messages == ASKED
    prompt = revise_prompt(prompt=prompt, by=CLI, text="Snow?")
    assert (prompt.text, prompt.messages) == ("Snow?", None)
    prompt = revise_prompt(prompt=prompt, by=CLI, messages=ASKED)
    assert (prompt.text, prompt.messages) == (transcript(ASKED), ASKED)
    assert add_prompt(arena, id="c", text="Hail?").messages is None


def test_judges_get_the_transcript(arena):
    add_prompt(arena, id="c", messages=ASKED)
    plain = add_prompt(arena, id="t", text="Why?")
    answer = add_answer(arena.candidates.get(), prompt_id="c", messages=STEPS)
    material = material_for(CallTarget(shown=(answer.pk,)))
    assert material.prompt == transcript(ASKED)
    assert material.answers == (transcript(STEPS),)
    simple = add_answer(arena.candidates.get(), prompt_id=plain.external_id, text="So.")
    assert material_for(CallTarget(shown=(simple.pk,))).answers == ("So.",)


def test_a_model_is_sent_the_turns_and_a_template_the_transcript(arena):
    prompt = add_prompt(arena, id="c", messages=ASKED)
    assert messages_for(prompt, system_prompt="Rules.", user_template="") == [
        ("system", "Rules."),
        ("system", "Be brief."),
        ("user", "Rain?"),
    ]
    filled = messages_for(prompt, system_prompt="", user_template="Q: {{ prompt }}")
    assert filled == [("user", f"Q: {transcript(ASKED)}")]
    tools = add_prompt(arena, id="d", messages=[*ASKED, *STEPS, ASKED[1]])
    assert messages_for(tools, system_prompt="", user_template="") == [("user", tools.text)]


def test_the_form_takes_a_conversation_or_a_text(client, db):
    team = make_team()
    arena = make_arena(1, 1, team=team)
    client.force_login(make_member(team).user)
    prompt = add_prompt(arena, id="c", messages=ASKED)
    address = reverse("edit_prompt", args=[arena.slug, prompt.pk])
    assert "Be brief." in client.get(address).content.decode()
    longer = [*ASKED[:1], {"role": "user", "content": "Snow?"}]
    assert client.post(address, {"messages": json.dumps(longer)}).status_code == 302
    prompt.refresh_from_db()
    assert prompt.messages == longer
    for fields, words in [
        ({}, "Enter the prompt"),
        ({"text": "x", "messages": json.dumps(ASKED)}, "not both"),
        ({"messages": "[1]"}, "message 1 that is a number"),
    ]:
        assert words in client.post(address, fields).content.decode()


def test_the_api_reads_and_writes_conversations(client, db):
    team = make_team()
    arena = make_arena(0, 0, team=team)
    candidate = make_candidate(arena, "A", team=team)
    client.force_login(make_member(team).user)
    prompts = reverse("api_prompts", args=[arena.slug])
    body = {"prompts": [{"external_id": "c", "messages": ASKED}]}
    assert client.post(prompts, body, "application/json").json()["added"] == 1
    assert client.get(prompts).json()["results"][0]["messages"] == ASKED
    responses = reverse("api_responses", args=[arena.slug, candidate.pk])
    body = {"responses": [{"prompt_id": "c", "messages": STEPS}]}
    assert client.post(responses, body, "application/json").json()["added"] == 1
    shown = client.get(responses).json()["results"][0]
    assert (shown["text"], shown["messages"]) == (own_words(STEPS), STEPS)
    one = reverse("api_prompt", args=[arena.slug, "c"])
    bad = client.patch(one, {"messages": [{"role": "x"}]}, "application/json")
    assert bad.status_code in (400, 422)
    assert "not one of system" in bad.content.decode()


def test_a_prompt_stored_before_system_messages_were_folded_is_rendered_again(db):
    prompt = make_arena(0, 1).prompts.get()
    prompt.messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "?"}]
    prompt.html, prompt.html_version = "<p>System</p><p>Be kind.</p>", 1
    assert "<details" in prompt_html(prompt)


def test_lists_name_a_conversation_by_what_the_user_said_last():
    turns = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "And now?"}]
    assert last_question(transcript(turns)) == "And now?"
    assert last_question("How are you?") == "How are you?"


def test_a_listed_question_has_no_marks_of_markdown():
    text = "Sum up:\n> **Mon 9:10, Ann:** `ls *.py`\n## Then\n```python\nf(**kwargs) # 2 ** 3\n```"
    plain = ["Sum up:", "Mon 9:10, Ann: ls *.py", "Then", "f(**kwargs) # 2 ** 3"]
    assert [line for line in last_question(text).splitlines() if line] == plain
