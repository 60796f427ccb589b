"""House rules that no other linter knows: template lines, names of modules and classes."""

import ast
import sys
from collections import defaultdict
from pathlib import Path

APPS = ("arena", "ranking", "judges")
LONGEST_LINE, LONGEST_TAG, MOST_LONG_TAGS = 120, 160, 10
NOUNS_IN_ING = {
    *("voting", "pairing", "parsing", "prompting", "planning", "scheduling", "wording"),
}
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
    faults, classes = [], defaultdict(list)
    for path in sorted(path for app in APPS for path in Path(app).rglob("*.py")):
        if "migrations" in path.parts:
            continue
        if path.stem.endswith("ing") and path.stem not in NOUNS_IN_ING:
            faults.append(f"{path}: a module is a noun")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(str(path))
    return faults + [
        f"class {name} is in {', '.join(paths)}"
        for name, paths in classes.items()
        if len(paths) > 1 and name not in SHARED_NAMES
    ]


if __name__ == "__main__":
    found = template_faults() + module_faults()
    print("\n".join(found))
    sys.exit(bool(found))
