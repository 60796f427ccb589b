"""What a browser sends of the form of new candidates."""

from typing import Any

from django.test import Client

SCRIPTED_KEY = "scripted:scripted-1"


def variants(*rows: dict[str, str], **settings: Any) -> dict[str, Any]:
    """The form with these rows, filled as `settings` say."""
    data = {"model": "elsewhere", "do": "register", "variants": str(len(rows)), **settings}
    for number, row in enumerate(rows):
        data |= {f"variant-{number}-{name}": value for name, value in row.items()}
    return data


def shown(client: Client, url: str, data: dict[str, Any]) -> dict[str, Any]:
    """The form as the browser sends it back once the price was shown, with all rows."""
    context = client.post(url, data | {"do": "price"}).context
    form = context["form"]
    assert form.is_ready, (form.errors, [variant.errors for variant in form.variants])
    rows = [{name: row[name].value() or "" for name in row.fields} for row in form.variants]
    cap = context["offer"].suggested_cap if context["offer"] else ""
    kept = {name: value for name, value in data.items() if name not in ("pasted", "prompt_files")}
    return kept | variants(
        *rows, model=data["model"], seen=context["fingerprint"], cap=cap, do="generate"
    )
