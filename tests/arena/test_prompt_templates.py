"""Templates of prompt variants: filled with a prompt's own values, or refused in words."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.prompting.templates import TemplateError, check_template, render_messages, variables_in

HOSTILE = st.lists(
    st.sampled_from(["{", "}", "{{", "}}", '"', "'", "prompt", "customer", " ", "\n", "é"])
    | st.text(max_size=3)
).map("".join)


def messages(user: str = "", system: str = "", prompt: str = "Why?", **variables: str):
    return render_messages(
        system_prompt=system, user_template=user, prompt=prompt, variables=variables
    )


def refusal(template: str, *known: str, part: str = "user template") -> str:
    with pytest.raises(TemplateError) as caught:
        check_template(template, known=known, part=part)
    return str(caught.value)


def test_both_parts_are_filled_with_the_prompt_and_its_variables():
    found = messages(
        "{{ prompt }} Sign as {{agent}}.", "You serve {{ customer }}.", customer="Ada", agent="Bo"
    )
    assert found == [("system", "You serve Ada."), ("user", "Why? Sign as Bo.")]


def test_blank_templates_send_the_prompt_alone():
    assert messages("", " \n") == [("user", "Why?")]
    assert messages("\n ") == [("user", "Why?")]


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{{prompt}}", "Why?"),
        ("{{\n prompt\t}}", "Why?"),
        ('{"q": {{{ prompt }}}, "n": {"m": 1}}', '{"q": {Why?}, "n": {"m": 1}}'),
        ('{{ prompt }} {{ "{{" }} prompt }}', "Why? {{ prompt }}"),
        ("{{ prompt }} {{'{{'}}prompt}}", "Why? {{prompt}}"),
        ("{{ prompt }} {prompt} }} {", "Why? {prompt} }} {"),
    ],
)
def test_braces_mean_nothing_by_themselves(template, rendered):
    assert messages(template) == [("user", rendered)]


def test_a_value_with_braces_stays_as_it_is():
    found = messages("{{ prompt }}{{ a }}", prompt="{{ a }}", a="{{ prompt }}")
    assert found == [("user", "{{ a }}{{ prompt }}")]


def test_a_variable_named_prompt_does_not_replace_the_text():
    variables = {"prompt": "something else"}
    found = render_messages(
        system_prompt="", user_template="{{ prompt }}", prompt="Why?", variables=variables
    )
    assert found == [("user", "Why?")]


def test_variables_are_named_in_order_and_once():
    assert variables_in('{{ b }} {{a}} {{ b }} {{ "{{" }} c }} {{ prompt }}') == [
        "b",
        "a",
        "prompt",
    ]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ promt }}", "uses {{ promt }}, which no prompt has; did you mean {{ prompt }}?"),
        ("{{ Customer }}", "did you mean {{ customer }}?"),
        ("{{ xyzzy }}", "which no prompt has; the prompts have {{ prompt }}, {{ customer }}."),
        (
            "{{ a }} {{ b }} {{ a }}",
            "{{ a }}, {{ b }}, which no prompt has; the prompts have {{ prompt }}, {{ customer }}.",
        ),
        (
            "Hello\n{{ prompt",
            "user template, line 2: '{{ prompt' opens a variable that is not closed",
        ),
        ("{{ prompt }", "is not closed with two braces"),
        ("{{ prompt {{ customer }}", "'{{ prompt ' opens a variable that is not closed"),
        ("{{ prompt }}\n{{ }}", "line 2: {{ }} names no variable; write {{ prompt }}."),
        ("{{\n}}{{ x", "line 1: {{ }} names no variable"),
        ("{{ prompt\n}}\n{{", "line 3: '{{' opens"),
        ("{{ prompt | upper }}", "'prompt | upper' is not a valid variable name, which must be"),
        ("{{ 1st }}", "'1st' is not a valid variable name"),
        ("Tell a joke.", "uses no variable, so every prompt would ask the same question"),
        ('{{ "{{" }} prompt }}', "uses no variable"),
        ("{{ prompt }}\0", "contains a NUL byte"),
        ("{{ prompt }}\ud800", "is not valid Unicode"),
    ],
)
def test_a_template_is_refused_with_the_error_in_it(template, words):
    assert words in refusal(template, "customer")


def test_a_template_may_ask_with_other_variables_than_the_prompt():
    check_template("Write to {{ customer }}.", known=["customer"])
    check_template("", known=[])
    check_template("Be kind.", known=[], part="system prompt")
    check_template("Be kind to {{ customer }}.", known={"customer": 1}, part="system prompt")


def test_what_is_too_long_is_refused_with_both_numbers():
    assert refusal("x" * 1_048_576, part="system prompt") == (
        "The system prompt has 1,048,576 characters; the limit is 100,000."
    )
    check_template("x" * 100_000, known=[], part="system prompt")
    assert "100,001 characters" in refusal("{{prompt}}" + "x" * 99_991)


def test_a_long_list_of_known_variables_is_cut():
    words = refusal("{{ xyzzy }}", *(f"k{number:02}" for number in range(20)))
    assert words.endswith(
        "{{ prompt }}, " + ", ".join(f"{{{{ k0{n} }}}}" for n in range(9)) + " and 11 more."
    )


def test_a_missing_value_names_the_prompt_and_the_variable():
    with pytest.raises(TemplateError) as caught:
        messages("{{ prompt }}", "Serve {{ customer }}.")
    assert str(caught.value) == (
        "The system prompt uses {{ customer }}, for which the prompt 'Why?' has no value."
    )
    with pytest.raises(TemplateError, match="the prompt 'p7' has no value"):
        render_messages(
            system_prompt="", user_template="{{ x }}", prompt="Why?", variables={}, prompt_id="p7"
        )


def test_a_message_that_would_be_too_long_is_not_built():
    with pytest.raises(TemplateError, match="becomes 9,000,000,000 characters long"):
        messages("{{prompt}}" * 9_000, prompt="x" * 1_000_000)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_rendering_refuses_or_answers_whatever_it_is_given(user, system, prompt, value):
    try:
        found = messages(user, system, prompt, customer=value)
    except TemplateError:
        return
    assert found[-1][0] == "user"


@given(HOSTILE, HOSTILE, st.lists(st.sampled_from(["prompt", "customer"]), min_size=1))
def test_values_are_inserted_verbatim(prompt, value, names):
    template = "|".join(f"{{{{ {name} }}}}" for name in names)
    values = {"prompt": prompt, "customer": value}
    expected = "|".join(values[name] for name in names)
    assert messages(template, prompt=prompt, customer=value) == [("user", expected)]


@given(HOSTILE)
def test_a_template_that_passes_the_check_can_be_filled(template):
    try:
        check_template(template, known=["customer"])
    except TemplateError:
        return
    assert messages(template, customer="x")


@pytest.mark.parametrize(
    "piece", ["{", "}", "{{", "{{ ", "{{ a ", '{{ "{{" ', "{{ a }} ", "{{\n", '{{ "', "{{ '{{\n"]
)
def test_hostile_braces_take_linear_time(piece):
    started = time.thread_time()
    for template in (piece * (100_000 // len(piece)), "{{" + piece * (99_990 // len(piece))):
        try:
            messages(template, a="")
        except TemplateError:
            continue
    assert time.thread_time() - started < 1


def test_no_suggestion_is_looked_for_among_very_many_names():
    started = time.thread_time()
    words = refusal("{{ " + "k" * 90 + " }}", *(f"{'k' * 80}{number}" for number in range(100_000)))
    assert time.thread_time() - started < 2
    assert words.endswith(" and 99,991 more.")
