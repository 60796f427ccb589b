"""MODEL_ENDPOINTS: the model servers an operator allows, never typed in by a team.

MODEL_ENDPOINTS='{"local": {"provider": "openai", "base_url": "http://127.0.0.1:8001/v1",
                            "key_env": "LOCAL_KEY"}}'
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from environs import Env

PROVIDERS = ("openai", "scripted")
FIELDS = {"provider", "base_url", "key_env", "key_file", "timeout"}


@dataclass(frozen=True)
class Endpoint:
    """One model server. The key is read when a request is made and never shown by `repr`."""

    name: str
    provider: str
    base_url: str = ""
    key_env: str = ""
    key_file: str = ""
    timeout: float = field(default=120.0)

    def key(self) -> str:
        """Return the API key from the environment or its file; '' for endpoints without one."""
        if self.key_file:
            return Path(self.key_file).read_text().strip()
        return os.environ.get(self.key_env, "") if self.key_env else ""


def read_endpoints(env: Env) -> dict[str, Endpoint]:
    """Read MODEL_ENDPOINTS; the scripted endpoint, which is no real model, is always there."""
    given: Any = env.json("MODEL_ENDPOINTS", {})
    if not isinstance(given, dict):
        raise ValueError("MODEL_ENDPOINTS must be a JSON object: name -> endpoint.")
    endpoints = {name: _read_endpoint(name, spec) for name, spec in given.items()}
    return {"scripted": Endpoint("scripted", "scripted")} | endpoints


def _read_endpoint(name: str, spec: Any) -> Endpoint:
    if not isinstance(spec, dict) or (unknown := set(spec) - FIELDS):
        extra = "" if not isinstance(spec, dict) else f" Unknown: {', '.join(sorted(unknown))}."
        raise ValueError(
            f"MODEL_ENDPOINTS[{name!r}] must be an object with {', '.join(sorted(FIELDS))}.{extra}"
        )
    if spec.get("provider") not in PROVIDERS:
        raise ValueError(f"MODEL_ENDPOINTS[{name!r}]: provider must be one of {PROVIDERS}.")
    if spec["provider"] != "scripted" and not _is_http(spec.get("base_url", "")):
        raise ValueError(f"MODEL_ENDPOINTS[{name!r}]: base_url must be an http(s) address.")
    return Endpoint(name=name, **spec)


def _is_http(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname)
