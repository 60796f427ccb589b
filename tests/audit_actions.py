"""The actions in audit logs, read from the code that writes them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
APPS = ("arena", "judges", "ranking")
WRITES = re.compile(r"\brecord\([^)]*\b(by|action)=|\brecord_in\(")


def actions() -> dict[str, str]:
    """Every action that is written out in the three apps, and where; "*" for what is filled in."""
    found = {}
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            text = path.read_text()
            if path.name != "audit.py" and WRITES.search(text):
                where = str(path.relative_to(ROOT))
                found |= dict.fromkeys(_in_module(ast.parse(text)), where)
    return found


def _in_module(tree: ast.Module) -> Iterator[str]:
    """What is handed over as `action`, by name or in its place, or put into a variable of it."""
    places = {"audit.record_in": 2, **dict(_takers(tree))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_action(node.targets[0]):
            yield from _texts(node.value)
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            if keyword.arg == "action":
                yield from _texts(keyword.value)
        place = places.get(ast.unparse(node.func))
        if place is not None and place < len(node.args):
            yield from _texts(node.args[place])


def _takers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The functions that take an action among their arguments, and which of them it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            if "action" in names:
                yield node.name, names.index("action")


def _is_action(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "action"


def _texts(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.IfExp):
        yield from _texts(value.body)
        yield from _texts(value.orelse)
    elif isinstance(value, ast.JoinedStr):
        said = [str(one.value) if isinstance(one, ast.Constant) else "*" for one in value.values]
        yield "".join(said)
