"""The operators' forms for model servers, their models and prices."""

from dataclasses import dataclass
from decimal import Decimal
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from django import forms

from arena.calls.known_models import KnownModel, price_known_of, well_known_models
from arena.endpoints import LONGEST_TIMEOUT
from arena.validation import MOST


@dataclass(frozen=True)
class ServerKind:
    """A kind of server, and what its form begins with."""

    label: str
    provider: str
    base_url: str
    price: str = ""


KINDS = {
    "openai": ServerKind("OpenAI-like", "openai", "https://api.openai.com/v1"),
    "anthropic": ServerKind("Anthropic", "anthropic", "https://api.anthropic.com"),
    "ollama": ServerKind("Ollama", "openai", "http://localhost:11434/v1", price="0"),
}


def usd_field(label: str, **options: Any) -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        required=False,
        min_value=0,
        max_value=MOST,
        max_digits=16,
        decimal_places=9,
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
        **options,
    )


def key_field(help_text: str) -> forms.CharField:
    return forms.CharField(
        label="Key",
        required=False,
        help_text=help_text,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


class ModelForm(forms.Form):
    """A model and its price; without a price nobody can use it."""

    model = forms.CharField(
        max_length=200,
        widget=forms.TextInput(
            attrs={"list": "known-models", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    input = usd_field("$ per million tokens in")
    output = usd_field("out")
    cached = usd_field("in from cache")

    def __init__(self, *args: Any, kind: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.filled_in: KnownModel | None = None

    def clean(self) -> dict[str, Any]:
        """Fill in the price of a well-known model if none was entered."""
        clean = super().clean() or {}
        if clean.get("model") and not any(self._entered(name) for name in PRICE_FIELDS):
            self.filled_in = price_known_of(self.kind, clean["model"])
        if self.filled_in:
            known = self.filled_in
            return clean | {"input": known.input, "output": known.output, "cached": known.cached}
        for name, other in (("input", "output"), ("output", "input")):
            missing = clean.get(name) is None and name not in self.errors
            if missing and (self._entered(other) or self._entered("cached")):
                self.add_error(name, "Enter both prices; 0 is a price.")
        if (clean.get("cached") or 0) > (clean.get("input") or 0):
            self.add_error("cached", "Cached input must not cost more than other input.")
        return clean

    def _entered(self, name: str) -> bool:
        return bool(self.data.get(self.add_prefix(name), "").strip())

    @property
    def price(self) -> tuple[Decimal, Decimal, Decimal | None] | None:
        clean = self.cleaned_data
        if clean["input"] is None:
            return None
        return clean["input"], clean["output"], clean["cached"]


PRICE_FIELDS = ("input", "output", "cached")


class AddModelForm(ModelForm):
    """A model and, unless it is there already, its server."""

    base_url = forms.CharField(label="Address", max_length=500)
    key = key_field("Stored encrypted and never shown again. Leave empty if the server needs none.")
    name = forms.CharField(
        required=False,
        max_length=100,
        help_text="How teams see this server. Leave empty to take it from the address.",
    )
    field_order = ("base_url", "key", "name", "model", *PRICE_FIELDS)

    def __init__(self, *args: Any, kind: str, **kwargs: Any) -> None:
        super().__init__(*args, kind=kind, **kwargs)
        chosen = KINDS[kind]
        self.fields["model"].required = False
        self.fields["model"].help_text = "Leave empty to choose from those found at the address."
        self.initial.update(base_url=chosen.base_url, input=chosen.price, output=chosen.price)

    def clean(self) -> dict[str, Any]:
        clean = super().clean()
        if clean.get("base_url") and not clean.get("name"):
            clean["name"] = self.kind if self._is_usual else name_from(clean["base_url"])
        return clean

    @property
    def _is_usual(self) -> bool:
        host = urlsplit(KINDS[self.kind].base_url).netloc
        return host in self.cleaned_data["base_url"]


def name_from(address: str) -> str:
    """Name a server after its address: `acme` for https://llm.acme.example/v1."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return ""
    try:
        ip_address(host)
    except ValueError:
        labels = host.split(".")
        return labels[-2] if len(labels) > 1 else host
    return host.replace(":", "-")


class EndpointForm(forms.Form):
    """What can be changed of a server: all but its name and kind."""

    base_url = forms.CharField(label="Address", max_length=500)
    key = key_field("Leave empty to keep the key.")
    no_key = forms.BooleanField(label="Remove the key", required=False)
    concurrency = forms.IntegerField(
        label="Requests at once, for each worker", min_value=1, max_value=1000
    )
    requests_per_minute = forms.IntegerField(
        label="Requests per minute", required=False, min_value=1, max_value=10**12
    )
    tokens_per_minute = forms.IntegerField(
        label="Tokens per minute", required=False, min_value=1, max_value=10**12
    )
    timeout = forms.FloatField(
        label="Seconds until a request is given up", min_value=0.1, max_value=LONGEST_TIMEOUT
    )
    idempotent = forms.BooleanField(
        label="Answers a repeated Idempotency-Key without doing the work again", required=False
    )

    @property
    def values(self) -> dict[str, Any]:
        own = {"key", "no_key"}
        return {name: value for name, value in self.cleaned_data.items() if name not in own}

    @property
    def key_entered(self) -> str | None:
        """The new key, '' to remove it, None to keep it."""
        if self.cleaned_data["key"]:
            return str(self.cleaned_data["key"])
        return "" if self.cleaned_data["no_key"] else None


def known_models_of(kind: str) -> list[KnownModel]:
    return [known for known in well_known_models() if known.kind == kind]
