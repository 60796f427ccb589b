"""House rules that no other linter knows: template lines, module names and sizes, class names."""

import ast
import sys
from collections import defaultdict
from pathlib import Path

APPS = ("arena", "ranking", "judges")
LONGEST_LINE, LONGEST_TAG, MOST_LONG_TAGS = 120, 160, 10
LARGEST_MODULE, SMALLEST_MODULE, MOST_SMALL = 600, 60, 20
NOUNS_IN_ING = {
    *("voting", "pairing", "rendering", "parsing", "prompting"),
    *("planning", "pricing", "scheduling", "pacing", "wording"),
}
ASKED_FOR = {"__init__", "admin", "apps", "celery", "checks", "middleware", "settings", "signals"}
ASKED_FOR |= {"tasks", "urls", "wsgi", "finders"}
VARIATIONS = ("commands", "formats", "providers", "templatetags")
SHARED_NAMES = {"Command", "Config", "Meta"}  # Django requires these names


def template_faults() -> list[str]:
    long = [
        (path, number, line)
        for path in sorted(Path("templates").rglob("*.html"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LONGEST_LINE
    ]
    faults = [f"{path}:{number}: {len(line)} characters" for path, number, line in long]
    longest = max((len(line) for _, _, line in long), default=0)
    return faults if len(long) > MOST_LONG_TAGS or longest > LONGEST_TAG else []


def module_faults() -> list[str]:
    faults, small, classes = [], [], defaultdict(list)
    for path in sorted(path for app in APPS for path in Path(app).rglob("*.py")):
        if "migrations" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        n_lines = text.count("\n")
        if path.stem.endswith("ing") and path.stem not in NOUNS_IN_ING:
            faults.append(f"{path}: a module is a noun")
        if n_lines > LARGEST_MODULE:
            faults.append(f"{path}: {n_lines} lines, more than {LARGEST_MODULE}")
        if n_lines < SMALLEST_MODULE and path.stem not in ASKED_FOR:
            small += [path] if path.parent.name not in VARIATIONS else []
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(str(path))
    if len(small) >= MOST_SMALL:
        faults.append(f"{len(small)} modules under {SMALLEST_MODULE} lines: {sorted(small)}")
    doubled = {name: paths for name, paths in classes.items() if len(paths) > 1}
    return faults + [
        f"class {name} is in {', '.join(paths)}"
        for name, paths in doubled.items()
        if name not in SHARED_NAMES
    ]


if __name__ == "__main__":
    found = template_faults() + module_faults()
    print("\n".join(found))
    sys.exit(bool(found))
