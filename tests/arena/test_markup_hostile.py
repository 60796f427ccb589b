"""Whatever a model wrote comes out as safe HTML, in bounded time."""

import json
import re
from html.parser import HTMLParser
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.markup.answers import render_answer
from arena.markup.markdown import MAX_TEXT_BYTES, render_markdown
from arena.markup.math import to_mathml
from arena.markup.sanitizer import MATH_TAGS, TEXT_TAGS, sanitize

ATTRIBUTES_THAT_RUN_OR_LOAD = {"src", "srcset", "style", "id", "name", "action", "xlink:href"}


class Tags(HTMLParser):
    """Collects the elements of a page as an HTML parser reads it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def assert_is_safe(html: str) -> None:
    for tag, attributes in Tags(html).found:
        assert tag in TEXT_TAGS | MATH_TAGS
        assert not ATTRIBUTES_THAT_RUN_OR_LOAD & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        if tag == "a" and "href" in attributes:
            assert re.match(r"(?i)https?:|mailto:", attributes["href"] or "")
            assert attributes["rel"] == "nofollow noopener noreferrer"
            assert attributes["target"] == "_blank"


PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<div onclick=alert(1) style='position:fixed' id=vote name=csrf>x</div>",
    "<iframe src=https://example.org></iframe>",
    "<form action=/vote><button name=outcome>x</button></form>",
    "<style>*{display:none}</style>",
    "<base href=//evil.example>",
    "<!-- --><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "</code></pre></div><script>alert(1)</script>",
    '"><script>alert(1)</script>',
    "' onmouseover='alert(1)",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=x>'>",
    "<math><annotation-xml encoding='text/html'><script>alert(1)</script></annotation-xml></math>",
    "<math href='javascript:alert(1)'>x</math>",
    "<maction actiontype='statusline' xlink:href='javascript:alert(1)'>x</maction>",
    "javascript:alert(1)",
    "JaVaScRiPt&colon;alert(1)",
    "java&#x0A;script:alert(1)",
    "\x01javascript:alert(1)",
    "vbscript:x",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "//evil.example/x",
    "/a/arena/vote/",
    "http://[",
    "https:javascript",
]
CONSTRUCTS = [
    "{}",
    "text {} text",
    "# {}",
    "> {}",
    "- {}\n  - {}",
    "1. {}",
    "**{}** *{}* ~~{}~~",
    "`{}`",
    "```{}\n{}\n```",
    "```html\n{}\n```",
    "    {}",
    "[{}](https://example.org)",
    "[x]({})",
    "[x](<{}>)",
    "[x](https://example.org '{}')",
    "![{}](https://example.org/x.png)",
    "![x]({})",
    "[x][1]\n\n[1]: {}",
    "<{}>",
    "| {} |\n|---|\n| {} |",
    "$x{}$",
    "$${}$$",
    "$$\n{}\n$$",
    r"\({}\)",
    r"\[{}\]",
    r"$\text{{{}}}$",
    r"$\href{{{}}}{{x}}$",
    r"$\color{{{}}}x$",
    r"$\eqref{{{}}}$",
]


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_nothing_hostile_gets_through_in_any_construct(construct):
    template = construct.replace("{{", "{").replace("}}", "}")
    for payload in PAYLOADS:
        assert_is_safe(render_markdown(template.replace("{}", payload)))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_sanitiser_alone_would_hold(payload):
    html = sanitize(
        f'<p>{payload}<a href="{payload}">x</a></p><math><mtext>{payload}</mtext></math>'
    )
    assert_is_safe(html)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "/logout", "#x", "data:text/html,x", "https:x", "//x"]
)
def test_a_link_that_may_not_be_followed_stays_source(address):
    assert f"[x]({address})" in render_markdown(f"[x]({address})")


@pytest.mark.parametrize("text", ["a\x00b", "a" + chr(0xD800) + "b", "a" + chr(0xDFFF) + "b"])
def test_what_no_page_can_carry_is_replaced(text):
    assert render_markdown(text) == '<p dir="auto">a\ufffdb</p>\n'


def test_a_split_emoji_is_joined():
    assert render_markdown("\ud83d\ude00") == '<p dir="auto">😀</p>\n'


MAX_SECONDS = 1.0


def seconds_to_render(text: str) -> float:
    """The processor time, which other processes do not lengthen."""
    started = thread_time()
    render_markdown(text)
    return thread_time() - started


def test_a_long_text_is_shown_plain():
    html = render_markdown("**é**<b>" * 3_000)
    assert html.startswith('<pre class="plain" dir="auto">**é**&lt;b&gt;')
    assert "<b>" not in html


def test_the_limit_is_bytes_and_inclusive():
    assert render_markdown("a" * MAX_TEXT_BYTES).startswith("<p")
    assert render_markdown("a" * (MAX_TEXT_BYTES + 1)).startswith("<pre")
    assert render_markdown("é" * (MAX_TEXT_BYTES // 2 + 1)).startswith("<pre")


def test_text_nested_too_deeply_loses_nothing():
    html = render_markdown("> " * 100 + "the end")
    assert html.startswith('<pre class="plain"')
    assert "the end" in html


@pytest.mark.slow
def test_a_table_that_would_explode_is_shown_plain():
    text = "|a" * 2000 + "|\n" + "|-" * 2000 + "|\n" + "a\n" * 4000
    assert render_markdown(text).startswith('<pre class="plain"')


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *[
            ">",
            "> ",
            "[",
            "![",
            "- ",
            "* ",
            "*",
            "_",
            "`",
            "` ",
            "```\n",
            "~",
            "**a",
            "*_",
            "<",
            "&",
        ],
        *["\\(", "\\[", "\\[\n", "$", "$$a\n", "$\\$", " $a", "\\[a\n\n\\]", "[a](", "[a]\n\n"],
        *["1. ", "| ", "#\n", "a|b\n-|-\n", "'", "<!--", "\x00", "\u202e", "😀", "<http://a>"],
    ],
)
def test_hostile_repetition_takes_bounded_time(piece):
    assert seconds_to_render(piece * (MAX_TEXT_BYTES // len(piece.encode()))) < MAX_SECONDS


@pytest.mark.parametrize("piece", ["[", "![", "[a](b '", "> ![", "*", "_", "`", "<", "> > "])
def test_one_piece_repeated_50_kb_or_as_long_as_is_rendered_takes_under_a_second(piece):
    for size in (MAX_TEXT_BYTES, 50_000):
        assert seconds_to_render(piece * (size // len(piece))) < MAX_SECONDS


def test_text_that_takes_too_long_to_parse_is_shown_plain(monkeypatch):
    monkeypatch.setattr("arena.markup.markdown.MAX_SECONDS", 0.05)
    assert render_markdown("![" * 5_000) == f'<pre class="plain" dir="auto">{"![" * 5_000}</pre>'


@pytest.mark.parametrize("piece", ["(", "[", "f'(", "'[a](b ", r"\langle "])
def test_a_formula_of_unclosed_brackets_takes_bounded_time(piece):
    started = thread_time()
    to_mathml(piece * 20, display=False)
    assert thread_time() - started < 0.1


@pytest.mark.parametrize("row", ["a\n", "|a" * 500 + "|\n"])
def test_a_table_of_500_columns_takes_under_a_second(row):
    head = "|a" * 500 + "|\n" + "|-" * 500 + "|\n"
    rows = row * ((MAX_TEXT_BYTES - len(head)) // len(row))
    assert seconds_to_render(head + rows) < MAX_SECONDS


def test_several_blocks_of_slow_code_share_one_limit():
    block = "```c\n" + "\n " * 3_250 + "\n```\n\n"
    assert seconds_to_render(block * 3) < MAX_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("language", ["python", "c", "console"])
@pytest.mark.parametrize("piece", ["\n ", "x y z ", "a::"])
def test_hostile_code_takes_bounded_time(language, piece):
    assert seconds_to_render(f"```{language}\n{(piece * 9000)[:7900]}\n```") < MAX_SECONDS


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)
PIECES = [
    *[
        "```",
        "$$",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "](",
        "| - |",
        "<script>",
        "javascript:",
        "http://a",
    ],
    *["\\frac", "\\begin{align}", "\\text{", "- ", "> ", *"*_`[]()<>!#-|$\\&\n\t {}'\"^~:1a"],
]
MARKUP = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


@settings(max_examples=100, deadline=None)
@given(ANY_TEXT | MARKUP)
def test_any_text_renders_to_safe_html(text):
    html = render_markdown(text)
    html.encode()
    assert "\x00" not in html
    assert_is_safe(html)


@settings(max_examples=100, deadline=None)
@given(MARKUP)
def test_any_formula_converts_to_safe_html(latex):
    assert_is_safe(to_mathml(latex, display=True).replace(' href="#', ' data-x="#'))


@pytest.mark.data
def test_real_answers_render_safely(data_dir):
    lines = (data_dir / "prompt-variants/responses.jsonl").read_text().splitlines()
    for line in lines[:: len(lines) // 300]:
        html = render_markdown(json.loads(line)["text"])
        assert_is_safe(html)
        assert not html.startswith('<pre class="plain"')


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_thought_is_text_and_cannot_open_its_fold(payload):
    html = render_answer(f"<think>{payload}</details></pre></think>{payload}")
    fold, _, said = html.partition("</details>")
    assert [tag for tag, _ in Tags(fold).found] == ["details", "summary", "pre"]
    assert_is_safe(said)
