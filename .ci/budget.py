"""Prints how many lines of code there are, and fails above the budget in pyproject.toml.

A line counts if it has a token of code: no blanks, comments, docstrings, imports or migrations.
Templates, CSS and JavaScript count by lines that are not blank. So docstrings and comments cost
nothing. Who raises a figure says in the commit what it is worth to users.
"""

import ast
import io
import sys
import tokenize
import tomllib
from pathlib import Path

NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
PYTHON = {
    "arena": "arena",
    "ranking": "ranking",
    "judges": "judges",
    "tests": "tests",
    "benchmarks": "benchmarks",
    "clients": "clients",
    "ci": ".ci",
}
OTHERS = {"templates": "templates/**/*.html", "css": "static/**/*.css", "js": "static/**/*.js"}


def pure_lines(source: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            is_docstring and isinstance(node.value.value, str)
        ):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def count_lines(root: Path = Path()) -> dict[str, int]:
    found = {
        name: sum(
            pure_lines(path.read_text(encoding="utf-8"))
            for path in (root / folder).rglob("*.py")
            if "migrations" not in path.parts
        )
        for name, folder in PYTHON.items()
    }
    for name, pattern in OTHERS.items():
        texts = (path.read_text(encoding="utf-8") for path in root.glob(pattern))
        found[name] = sum(bool(line.strip()) for text in texts for line in text.splitlines())
    return found


if __name__ == "__main__":
    counted = count_lines(*map(Path, sys.argv[1:]))
    budget = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["ringside"]["budget"]
    product = sum(counted[app] for app in ("arena", "ranking", "judges"))
    each = ", ".join(f"{name} {n:,}" for name, n in counted.items())
    print(f"Lines of code: product {product:,}; {each}.")
    above = [
        f"{name}: {n:,} lines, {n - budget[name]:,} above its budget."
        for name, n in counted.items()
        if n > budget[name]
    ]
    print("\n".join(above))
    sys.exit(bool(above))
