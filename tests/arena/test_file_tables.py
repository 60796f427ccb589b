"""Tables as people save them, read row by row; no database."""

import csv
import io
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.files.reader import FileError, Source
from arena.files.rows import PromptRow, ResponseRow
from arena.files.tables import PROMPTS, RESPONSES, Columns, Problem, Table, parse_pasted, read_table

PRINTED = st.characters(exclude_categories=["Cs", "Cc"])
CELLS = st.text(PRINTED | st.sampled_from('\n\r\t";,'), max_size=8)
ENCODINGS = {
    "UTF-8": "utf-8",
    "UTF-8 with BOM": "utf-8-sig",
    "UTF-16-LE": "utf-16-le",
    "UTF-16-BE": "utf-16-be",
}


def prompts(data: str | bytes, **limits: int) -> Table[PromptRow]:
    data = data.encode() if isinstance(data, str) else data
    return read_table(data, columns=PROMPTS, **limits)


def responses(data: str) -> Table[ResponseRow]:
    return read_table(data.encode(), columns=RESPONSES)


def written(rows: list[list[str]], delimiter: str = ",") -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


def said(table: Table) -> list[str]:
    return [f"{one.row}, {one.column}: {one.sentence}" for one in table.problems]


def test_every_field_of_a_prompt_is_read():
    table = prompts(
        "ID,Prompt,Tag,Expected,rubric,customer\np1,Why?,greetings,Because.,Be strict.,Ada\n"
        ",How?,,,,\n"
    )
    assert table == Table(
        rows=[
            PromptRow(2, "Why?", "p1", "greetings", "Because.", "Be strict.", {"customer": "Ada"}),
            PromptRow(3, "How?", variables={"customer": ""}),
        ],
        notices=[
            "Columns were read as follows: 'Prompt' as the prompt, 'ID' as the ID, 'Tag' as the"
            " category, 'Expected' as the reference answer, 'rubric' as the rubric, 'customer' as a"
            " variable."
        ],
    )


def test_columns_of_usual_names_are_read_without_a_notice():
    assert prompts("id,text,category,rubric,reference\np1,Why?,a,b,c\n").notices == []
    assert prompts("question,answer\nWhy?,So.\n").notices == [
        "Columns were read as follows: 'question' as the prompt, 'answer' as a variable."
    ]


def test_what_looks_like_a_variable_in_a_text_is_named():
    assert prompts("id,text\np1,{ {x} }\np3,Ask {{ product }}\np4,{{x}}\n").notices == [
        "The text of 'p3' contains {{ product }}, which is sent as is: variables belong in a"
        " candidate's template. The same goes for 1 more."
    ]
    assert "The text of row 2 contains {{x}}," in parse_pasted("Why?\n{{x}}?").notices[0]


def test_answers_say_what_they_took():
    table = responses(
        "prompt_id;answer;input_tokens;tokens_out;seconds;cost\n"
        "p1;Because.;12;340;1,5;0.000021\np2;So.;;;;\n"
    )
    assert table.rows == [
        ResponseRow(2, "Because.", "p1", "", 12, 340, 1.5, 21_000),
        ResponseRow(3, "So.", "p2"),
    ]


def test_answers_may_name_their_prompt_by_its_text():
    [row] = responses('{"prompt": "Why?", "response": "Because.", "seconds": 2}').rows
    assert (row.prompt_id, row.prompt, row.text, row.seconds) == ("", "Why?", "Because.", 2.0)


def test_json_lines_and_an_array_say_the_same():
    objects = [{"id": 7, "text": "Why?", "customer": "Ada", "age": 30}, {"Text": "How?", "x": None}]
    lines = prompts("\n\n".join(map(json.dumps, objects)))
    array = prompts(" " + json.dumps(objects, indent=2))
    assert [row.row for row in lines.rows] == [1, 3]
    assert [row.row for row in array.rows] == [1, 2]
    for table in (lines, array):
        first, second = table.rows
        assert (first.external_id, first.variables) == ("7", {"customer": "Ada", "age": "30"})
        assert (second.text, second.variables) == ("How?", {})


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("marked", [True, False])
def test_unicode_encodings_are_detected_with_and_without_a_bom(name, marked):
    mark = "\ufeff" if marked and name.startswith("UTF-16") else ""
    data = (mark + "text\tid\r\nWas heißt „Größe“?\tp1\r\n").encode(ENCODINGS[name])
    table = prompts(data)
    assert [(row.text, row.external_id) for row in table.rows] == [("Was heißt „Größe“?", "p1")]
    assert (Source.of(data).encoding, table.notices) == (name, [])


def test_windows_1252_is_read_with_a_notice():
    table = prompts("text;id\nWas heißt „Größe“?;p1\n".encode("cp1252"))
    assert table.rows[0].text == "Was heißt „Größe“?"
    assert table.notices[0].startswith("The file is not UTF-8 and was read as Windows-1252.")


def test_a_column_of_prompts_alone_needs_no_quotes():
    table = prompts('question\nHello, world; and all\n\n"Two\nlines"\n')
    assert [(row.row, row.text) for row in table.rows] == [
        (2, "Hello, world; and all"),
        (4, "Two\nlines"),
    ]


def test_what_excel_adds_does_no_harm():
    table = prompts("sep=;\r\nText;Category;;\r\nA, b;x;;\r\n;;;\r\n\r\nC;y;;;;\r\n")
    assert [(row.row, row.text, row.category) for row in table.rows] == [
        (2, "A, b", "x"),
        (5, "C", "y"),
    ]
    assert table.problems == []


def test_long_texts_are_read_by_several_threads_at_once():
    tables = []
    data = written([["text", "id"], *([f"{n}" + "x" * 200_000, str(n)] for n in range(9))])
    readers = [threading.Thread(target=lambda: tables.append(responses(data))) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [len(table.rows) for table in tables] == [9] * 4


def test_each_bad_row_is_a_problem_and_the_others_are_read():
    table = prompts(
        "id,Question,category\np1,Why?,x\np2,,x\np1,How?,x\np3,What\np4,a,b,c\n"
        f'p5,"quo"te,x\np6,Who?,{"y" * 101}\np7,When?,x\n'
    )
    assert [row.external_id for row in table.rows] == ["p1", "p7"]
    assert said(table) == [
        "3, Question: The prompt is empty; fill it in, or leave the row out (column 'Question').",
        "4, id: The ID is the same as in row 2; correct it, or leave the row out (column 'id').",
        "5, : The row has 2 fields; the header has 3: leave missing ones empty.",
        "6, : The row has 4 fields; the header has 3: put text that contains delimiters in quotes.",
        "7, : The row is not CSV: ',' expected after '\"'; double each quote within a text.",
        "8, category: The category is 101 characters long; the limit is 100; shorten it, or leave"
        " the row out (column 'category').",
    ]


def test_an_unclosed_quotation_mark_is_a_problem_of_its_row():
    table = prompts('text,id\nWhy?,p1\n"How?,p2\nWho?,p3\n')
    assert [row.external_id for row in table.rows] == ["p1"]
    assert said(table) == [
        "3, : The row is not CSV: unexpected end of data; double each quote within a text."
    ]


def test_a_value_below_no_name_is_a_problem():
    table = prompts("text,category,\nHello, my friend,x\n")
    assert said(table) == [
        "2, : The row has a value in a column without a name; name or delete the column."
    ]


def test_a_prompt_twice_is_a_problem_unless_variables_differ():
    table = prompts("text,customer\nWhy?,Ada\nWhy?,Bo\nWhy?,Ada\n")
    assert [row.variables["customer"] for row in table.rows] == ["Ada", "Bo"]
    assert table.problems == [
        Problem(
            4,
            "text",
            "The prompt is the same as in row 2; correct it, or leave the row out (column 'text').",
        )
    ]


def test_a_second_answer_to_one_prompt_is_a_problem():
    table = responses("id,prompt,answer\np1,,a\np1,,b\n,Why?,c\n,Why?,d\n,,e\n,p1,f\n")
    assert [row.text for row in table.rows] == ["a", "c", "f"]
    assert said(table) == [
        "3, id: The prompt’s ID is the same as in row 2; correct it, or leave the row out (column"
        " 'id').",
        "5, prompt: The prompt is the same as in row 4; correct it, or leave the row out (column"
        " 'prompt').",
        "6, prompt: The prompt is empty, so it is not clear which prompt this answers;"
        " fill it in, or leave the row out (column 'prompt').",
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"text": "a"', "The row is not JSON: Expecting"),
        ('["a"]', "The row is a list, not a JSON object."),
        ('{"text": ["a"]}', "The prompt is a list, not text (column 'text')."),
        ('{"text": true}', "The prompt is true or false, not text (column 'text')."),
        ('{"id": "p1"}', "The prompt is empty; fill it in, or leave the row out (column 'text')."),
        ('{"text": "a\\u0000"}', "The prompt contains a NUL byte"),
        ('{"text": "a\\ud800"}', "The prompt is not valid Unicode"),
        (
            '{"text": "a", "Text": "b"}',
            "The row names a column twice; correct it, or leave the row out.",
        ),
        ('{"text": "a", "x": {}}', "The column 'x' is an object, not text."),
        ('{"text": "a", "x": Infinity}', "The row has a number that cannot be stored"),
        (
            '{"text": ' + "[" * 100_000,
            "The row is nested too deeply; correct it, or leave the row out.",
        ),
        ('{"text": "' + "x" * 1_000_001 + '"}', "The prompt is 1,000,001 bytes long"),
    ],
)
def test_a_bad_object_is_a_problem(line, sentence):
    table = prompts('{"text": "Why?"}\n' + line)
    assert [row.text for row in table.rows] == ["Why?"]
    assert [(one.row, one.sentence.startswith(sentence)) for one in table.problems] == [(2, True)]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("tokens_in", "1.5", "is 1.5, not a whole number"),
        ("tokens_in", "-1", "is '-1', not a number that is 0 or more"),
        ("tokens_out", "2147483648", "at most 2,147,483,647 is allowed"),
        ("tokens_out", "1_000", "not a number"),
        ("seconds", "NaN", "not a number"),
        ("seconds", "1,234", "where the comma is ambiguous"),
        ("seconds", "1e7", "at most 1,000,000 is allowed"),
        ("cost", "$1", "not a number"),
        ("cost", "1e99", "at most 1,000,000 is allowed"),
    ],
)
def test_a_bad_number_is_a_problem(column, value, words):
    [problem] = responses(written([["id", "text", column], ["p1", "a", value]])).problems
    assert (problem.row, problem.column) == (2, column)
    assert words in problem.sentence


@pytest.mark.parametrize("value", [True, [], {}, 10**200, 1e300, -1])
def test_a_number_in_json_is_held_to_the_same_rules(value):
    [problem] = responses(
        '{"id": "p1", "text": "a"}\n' + json.dumps({"id": "p2", "text": "b", "cost": value})
    ).problems
    assert problem.column == "cost"


@pytest.mark.parametrize(("value", "cost"), [(0, 0), (2e-05, 20_000), (0.1, 100_000_000)])
def test_what_an_answer_cost_is_taken_to_the_nano_dollar(value, cost):
    [row] = responses(json.dumps({"id": "p", "text": "a", "cost": value, "tokens_in": 3.0})).rows
    assert (row.cost, row.tokens_in) == (cost, 3)


def test_columns_that_are_not_used_are_named():
    table = prompts("text,Customer name,x,prompt\nWhy?,Ada,1,p1\n")
    assert (table.rows[0].variables, table.rows[0].external_id) == ({"x": "1"}, "p1")
    assert table.notices == [
        "Columns were read as follows: 'text' as the prompt, 'prompt' as the ID, 'x' as a"
        " variable.",
        "Not used: 'Customer name'. A variable's name must be one word of letters, digits and "
        "underscores, other than prompt.",
    ]
    assert responses("id,text,model\np1,a,m\n").notices == [
        "Not used: 'model'. Answers have no other columns."
    ]


def test_one_column_is_not_two_things():
    [row] = prompts("prompt\nWhy?\n").rows
    assert (row.text, row.external_id) == ("Why?", "")


def test_prompt_is_never_the_name_of_a_variable():
    [row] = prompts("id,text,prompt\np1,Why?,x\n").rows
    assert row.variables == {}


@given(
    st.lists(st.tuples(CELLS.filter(str.strip), CELLS), min_size=1, max_size=6),
    st.sampled_from(",;\t"),
    st.sampled_from(list(ENCODINGS.values())),
)
@settings(max_examples=150)
def test_every_dialect_and_encoding_is_read_back(cells, delimiter, encoding):
    rows = [[f"p{number}", text, note] for number, (text, note) in enumerate(cells)]
    table = prompts(written([["id", "text", "note"], *rows], delimiter).encode(encoding))
    assert table.problems == []
    found = [[row.external_id, row.text, row.variables["note"]] for row in table.rows]
    assert found == rows


PIECES = st.sampled_from(
    [
        *rb"""text id , ; " { {"text": [ ] "a" } 1 sep=; PK""".split(),
        *(b"\n", b"\r", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe9", b"\x81", b"t\0e\0x\0t\0"),
    ]
)


@given(st.binary(max_size=60) | st.lists(PIECES | st.binary(max_size=3)).map(b"".join))
@settings(max_examples=400)
def test_whatever_the_bytes_they_are_read_or_refused(data):
    for columns in (PROMPTS, RESPONSES):
        for start in (b"", b"id,text\n", b'[{"text": "a", "id": 1},'):
            _read_or_refuse(start + data, columns)


def _read_or_refuse(data: bytes, columns: Columns) -> None:
    try:
        table = read_table(data, columns=columns)
    except FileError as refused:
        sentences = [str(refused)]
    else:
        sentences = [problem.sentence for problem in table.problems]
        assert table.rows or table.problems
    assert all(one.endswith(".") and "\n" not in one for one in sentences)


def test_an_answer_that_is_missing_is_called_an_answer():
    table = responses("id,answer\np1,\np2,a\n")
    assert said(table) == [
        "2, answer: The answer is empty; fill it in, or leave the row out (column 'answer')."
    ]
    table = responses('{"id": "p1"}\n{"id": "p2", "answer": "a"}')
    assert said(table) == [
        "1, answer: The answer is empty; fill it in, or leave the row out (column 'answer')."
    ]


def test_every_name_that_a_column_may_have_is_reported():
    assert RESPONSES.accepted.startswith("prompt_id, id or external_id; prompt, prompt_text,")
    assert "text, answer, response or output" in RESPONSES.accepted
    assert PROMPTS.accepted.endswith("; rubric")


def pasted(text: str) -> list[tuple[int, str]]:
    return [(row.row, row.text) for row in parse_pasted(text).rows]


def test_each_line_is_a_prompt():
    assert pasted("  Why?\r\n\r\nHow, and when?\n") == [(1, "Why?"), (3, "How, and when?")]


def test_lines_of_dashes_part_prompts_of_several_lines():
    text = "---\n\nRead this:\n\n  it is short\n--- \nWhy?\n-----\n\n---\n- not a rule --- \n"
    assert pasted(text) == [
        (3, "Read this:\n\n  it is short"),
        (7, "Why?"),
        (11, "- not a rule ---"),
    ]


def test_the_same_prompt_twice_is_a_problem():
    table = parse_pasted("Why?\nHow?\nWhy?")
    assert len(table.rows) == 2
    assert [(one.row, one.sentence) for one in table.problems] == [
        (3, "The prompt is the same as in row 1; correct it, or leave the row out (column 'text').")
    ]


@pytest.mark.parametrize("text", ["", " \r\n\t", "---", "---\n\n---\n"])
def test_nothing_pasted_is_refused(text):
    with pytest.raises(FileError, match="contains no prompts"):
        parse_pasted(text)


def test_too_many_prompts_are_refused():
    assert len(parse_pasted("a\nb\nc", at_most_rows=3).rows) == 3
    with pytest.raises(FileError, match="more than 2 rows"):
        parse_pasted("a\nb\nc", at_most_rows=2)


@given(st.text() | st.lists(st.sampled_from(["a", "\n", "---", "\r", " ", "\0"])).map("".join))
def test_whatever_is_pasted_is_read_or_refused(text):
    try:
        table = parse_pasted(text)
    except FileError:
        return
    assert table.rows or table.problems
    for row in table.rows:
        assert row.text in text.replace("\r\n", "\n").replace("\r", "\n")
