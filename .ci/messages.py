"""Collects the sentences of translated pages: `python .ci/messages.py` updates every language.

New sentences are added to arena/locale/*/LC_MESSAGES/django.po without a translation, those that
are gone are removed, and django.mo is compiled from it. The texts come from Django's own template
parser and from calls of gettext with a literal, so no other program is needed.
"""

import ast
import os
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import django
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.template.loader import get_template
from django.templatetags.i18n import BlockTranslateNode, TranslateNode

ROOT = Path(__file__).resolve().parents[1]
CATALOGS = sorted(ROOT.glob("arena/locale/*/LC_MESSAGES/django.po"))
HEADER = "# Made by .ci/messages.py; the translations are written by hand."
CALLS = {"gettext", "gettext_lazy", "gettext_noop"}


def texts_in_templates() -> Iterator[str | tuple[str, str]]:
    """Sentences of `translate` and `blocktranslate`; a pair for a sentence with a plural."""
    folder = ROOT / "templates"
    for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.txt")]):
        text = path.read_text(encoding="utf-8")
        if "translate" not in text:
            continue
        nodes = get_template(str(path.relative_to(folder))).template.nodelist
        for node in nodes.get_nodes_by_type(TranslateNode):
            yield node.filter_expression.var.literal.replace("%", "%%")  # as Django looks it up
        for node in nodes.get_nodes_by_type(BlockTranslateNode):
            singular = node.render_token_list(node.singular)[0]
            if node.plural:
                yield singular, node.render_token_list(node.plural)[0]
            else:
                yield singular


def texts_in_python() -> Iterator[str]:
    for app in ("arena", "ranking", "judges"):
        for path in sorted((ROOT / app).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "gettext" in text else ():
                match node:
                    case ast.Call(func=ast.Name(name), args=[ast.Constant(str(sentence))]):
                        if name in CALLS:
                            yield sentence


def collect() -> set[str | tuple[str, str]]:
    return {*texts_in_templates(), *texts_in_python()}


def update(path: Path) -> bytes:
    """Update a language's file; return it compiled."""
    with path.open("rb") as file:
        known = read_po(file)
    catalog = Catalog(locale=path.parts[-3], header_comment=HEADER, fuzzy=False)
    catalog.creation_date = known.creation_date
    for text in sorted(collect(), key=str):
        old = known.get(text if isinstance(text, str) else text[0])
        catalog.add(text, old.string if old else None)
    missing = [message.id for message in catalog if message.id and not message.string]
    for text in missing:
        sys.stdout.write(f"{path.parts[-3]}: no translation of {text!r}\n")
    with path.open("wb") as file:
        write_po(file, catalog, width=100, omit_header=False, include_lineno=False)
    return compiled(catalog)


def compiled(catalog: Catalog) -> bytes:
    out = BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    django.setup()
    for po in CATALOGS:
        po.with_suffix(".mo").write_bytes(update(po))
