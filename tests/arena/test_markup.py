"""Markdown, tables, code and math of an answer become HTML that reads well."""

import re
import runpy
import threading
from pathlib import Path

import pytest

from arena.markup.answers import render_answer
from arena.markup.conversations import render_conversation
from arena.markup.markdown import render_markdown
from arena.markup.math import to_mathml

REPOSITORY = Path(__file__).resolve().parents[2]
GENERATOR = runpy.run_path(str(REPOSITORY / ".ci/code_css.py"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**bold** and *slanted*", "<strong>bold</strong> and <em>slanted</em>"),
        ("~~gone~~", "<s>gone</s>"),
        ("one\ntwo", "one<br>\ntwo"),
        ("- a\n- b", "<li>a</li>\n<li>b</li>"),
        ("3. a\n4. b", '<ol start="3" dir="auto">'),
        ("> said", '<blockquote dir="auto">\n<p>said</p>'),
        ("`a < b`", "<code>a &lt; b</code>"),
        ("[x](https://example.org/?a=1&b=2)", 'href="https://example.org/?a=1&amp;b=2"'),
        ("<https://example.org>", 'href="https://example.org"'),
        ("[write](mailto:a@example.org)", 'href="mailto:a@example.org"'),
        ("שלום עולם", '<p dir="auto">שלום עולם</p>'),
        ("日本語の文章", '<p dir="auto">日本語の文章</p>'),
        ("Tom & Jerry &amp; 5 < 6", "Tom &amp; Jerry &amp; 5 &lt; 6"),
    ],
)
def test_markdown_is_rendered(text, expected):
    assert expected in render_markdown(text)


@pytest.mark.parametrize(
    ("level", "tag"), [(1, "h3"), (2, "h4"), (3, "h5"), (4, "h6"), (5, "h6"), (6, "h6")]
)
def test_headings_go_below_those_of_the_page(level, tag):
    assert render_markdown("#" * level + " Title") == f'<{tag} dir="auto">Title</{tag}>\n'


def test_tables_scroll_and_align_by_class():
    html = render_markdown("| a | b |\n|:--|--:|\n| 1 | **2** |\n\n| c |\n|:-:|\n| 3 |")
    assert '<div class="scroll" tabindex="0" role="group" aria-label="Table 1">' in html
    assert 'aria-label="Table 2"' in html
    assert '<td class="align-right"><strong>2</strong></td>' in html
    assert '<td class="align-center">3</td>' in html
    assert " style=" not in html


def test_an_image_becomes_a_link_and_sends_no_request():
    html = render_markdown("![a chart](https://example.org/x.png)")
    assert ">a chart</a>" in html
    assert 'href="https://example.org/x.png"' in html
    assert "<img" not in html


def test_an_image_within_a_link_is_its_description():
    html = render_markdown("[![logo](https://a.example/x.png)](https://b.example)")
    assert html.count("<a ") == 1
    assert ">logo</a>" in html


@pytest.mark.parametrize("info", ["python", "py", "Python", "python title=x", "{.python}"])
def test_code_is_highlighted_by_classes(info):
    html = render_markdown(f"```{info}\nprint('<b>')\n```")
    assert '<span class="nb">print</span>' in html
    assert "&lt;b&gt;" in html
    assert 'role="group" aria-label="Code 1" dir="ltr"' in html
    assert " style=" not in html


@pytest.mark.parametrize("info", ["", "nosuch", "../../x", '"><script>', "text", "make", "💥"])
def test_code_in_an_unknown_language_is_shown_as_it_is(info):
    html = render_markdown(f"```{info}\na < b\n```")
    assert '<pre class="highlight"><code>a &lt; b\n</code></pre>' in html


def test_indented_code_is_a_block_too():
    assert '<pre class="highlight"><code>a\n</code></pre>' in render_markdown("    a\n")


@pytest.mark.parametrize(
    ("text", "display"),
    [
        ("so $x^2$ is", False),
        (r"so \(x^2\) is", False),
        ("$x^2$ is below 5", False),
        ("设$x^2$为", False),
        ("$$x^2$$", True),
        ("$$\nx^2\n$$", True),
        (r"\[ x^2 \]", True),
        ("So:\n\\[\nx^2\n\\]\nand on", True),
        ("So:\n$$\nx^2\n$$\nand on", True),
        ("> $$\n> x^2\n> $$", True),
        ("1. first\n   \\[\n   x^2\n   \\]\n2. second", True),
        (r"so \[x^2\] is", True),
    ],
)
def test_math_becomes_mathml(text, display):
    html = render_markdown(text)
    opening = '<math display="block">' if display else "<math>"
    assert opening + "<msup><mi>x</mi><mn>2</mn></msup></math>" in html
    assert "$" not in html


@pytest.mark.parametrize(
    "text",
    [
        "$5 and $6",
        "between $1,000 and $2,000.",
        "$5-$6",
        "US$5 or AU$7",
        "data$first <- data$last",
        r"\$x\$",
        "$ x $",
        "$$",
        "`$x$`",
        "a $x",
        r"\(x",
        "\\[ a\n\nb \\]",
        r"\(\)",
    ],
)
def test_what_is_not_math_stays_text(text):
    assert "<math" not in render_markdown(text)


def test_math_in_alignment_uses_classes():
    html = render_markdown(r"$$\begin{aligned}a&=b\\&=c\end{aligned}$$")
    assert '<mtd class="math-right"><mi>a</mi></mtd>' in html
    assert " style=" not in html


@pytest.mark.parametrize(
    "latex",
    [
        r"\nosuch{x}",
        r"\href{javascript:alert(1)}{x}",
        r"\frac{1}",
        r"\newcommand{\a}{xx}\a",
        r"\def\a{\a\a}\a",
        "{" * 41 + "}" * 41,
        r"\hat" * 40 + "{x}",
    ],
)
def test_a_formula_that_cannot_be_set_is_shown_as_its_source(latex):
    html = to_mathml(latex, display=False)
    assert html.startswith('<code class="latex">')
    assert "<math" not in html


@pytest.mark.parametrize("latex", [r"x \tag{1}", r"x \label{a}", r"\$5 + $6", r"\frac{a}{b}"])
def test_what_models_really_write_is_set(latex):
    assert to_mathml(latex, display=True).startswith("<math")


@pytest.mark.parametrize(
    "piece",
    [
        *["{", r"\frac{1}{", r"\sqrt{", r"\sqrt[", r"\left(", r"\begin{matrix}", "x^{", r"\hat"],
        *[r"\not", r"\hat ", r"\displaystyle ", r"\color{red}", "^", r"\frac1", r"\overset a"],
    ],
)
def test_deep_formulas_do_not_overflow_a_small_stack(piece):
    done = []

    def convert():
        for count in (38, 39, 40, 100, 10_000):
            to_mathml((piece * count)[:2_000], display=True)
        done.append(True)

    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=convert)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert done


def test_the_style_sheet_is_the_one_that_is_generated():
    assert (REPOSITORY / "static/css/code.css").read_text() == GENERATOR["code_css"]()


def test_every_colour_of_code_can_be_read_on_its_background():
    light, dark = GENERATOR["code_css"]().split("@media (prefers-color-scheme: dark)")
    for css, (_, background) in ((light, GENERATOR["LIGHT"]), (dark, GENERATOR["DARK"])):
        colours = re.findall(r"[{ ]color: (#\w+)", css)
        assert len(colours) > 20
        assert all(GENERATOR["contrast"](colour, background) >= 4.5 for colour in colours)


def test_contrast_is_that_of_the_standard():
    assert GENERATOR["contrast"]("#000000", "#ffffff") == pytest.approx(21)
    assert GENERATOR["contrast"]("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


THOUGHT = '<details class="thought"><summary>Thought</summary><pre class="plain" dir="auto">'


def test_a_thought_is_folded_before_a_formatted_answer():
    html = render_answer("<think>**Hm** <b></think>\n\n**Yes**")
    assert html.startswith(f"{THOUGHT}**Hm** &lt;b&gt;</pre></details>")
    assert html.endswith("<strong>Yes</strong></p>\n")


def test_an_answer_without_thought_has_no_fold():
    assert render_answer("**Yes**") == render_markdown("**Yes**")
    assert "<details" not in render_answer("<think>\n</think>Yes")
    assert "&lt;think&gt;It goes on" in render_answer("<think>It goes on")


def test_thought_in_an_answer_of_several_steps_is_folded_in_its_step():
    steps = [
        {"role": "user", "content": "<think>Mine</think>No"},
        {"role": "assistant", "content": "<think>One</think>First"},
        {"role": "assistant", "content": "<think>Two</think>Second"},
    ]
    html = render_conversation(steps, folds_thought=True)
    assert html.count(THOUGHT) == 2
    assert html.index("One") < html.index("First") < html.index("Two") < html.index("Second")
    assert THOUGHT not in render_conversation(steps)


def test_a_large_picture_is_named_and_the_rest_keeps_its_formatting():
    picture = "data:image/png;base64," + "iVBO" * 30_000
    html = render_markdown(f"Here is **the chart**:\n\n![c]({picture})\n\n- done")
    assert "<strong>the chart</strong>" in html
    assert "[image, PNG, 88 kB]" in html
    assert "<li>done</li>" in html
    assert len(html) < 1000
