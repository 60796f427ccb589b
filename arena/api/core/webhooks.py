"""The webhooks in the OpenAPI description."""

from typing import Any

NOTICE = {
    "id": "notice-71",
    "type": "decision.known",
    "created_at": "2026-11-22T09:00:00+00:00",
    "team": "search",
    "arena": "search-answers",
    "sentence": "new-draft is better than in-production.",
    "url": "https://arena.example/teams/search/arenas/search-answers/?candidate=17&baseline=12",
}
FIGURES = {
    "lead": "ahead",
    "elo": 41.2,
    "low": 12.9,
    "high": 70.1,
    "wins": 0.559,
    "wins_low": 0.519,
    "wins_high": 0.6,
    "chance": 0.004,
    "votes": 412,
    "between": 180,
    "these_raters": False,
    "family": 1,
}
DECIDED: dict[str, Any] = NOTICE | {
    "candidate": {"id": 17, "name": "new-draft"},
    "baseline": {"id": 12, "name": "in-production"},
    "raters": "people",
    "numbers": FIGURES,
}
TESTED: dict[str, Any] = NOTICE | {
    "type": "webhook.test",
    "arena": None,
    "sentence": "Webhook test.",
}
HEAD: dict[str, Any] = NOTICE | {
    "type": "log.head",
    "sentence": "Search answers: link 412.",
    "head": {"number": 412, "digest": "9c1f", "key": "b7aa", "signature": "e02d"},
}
UNDER_REVIEW: dict[str, Any] = NOTICE | {
    "type": "votes.review",
    "sentence": "Search answers: votes on new-draft look rigged and are under review.",
    "candidate": {"id": 17, "name": "new-draft"},
}
WEBHOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "decision.known": ("A candidate is better or worse than the baseline", DECIDED),
    "log.head": ("The newest link of an arena's vote log, once a day", HEAD),
    "votes.review": ("A group of votes looks rigged; no leader is named", UNDER_REVIEW),
    "webhook.test": ("A test that a member requested", TESTED),
}
RECEIVED = (
    "Any status from 200 to 299 accepts the delivery. 410 removes the webhook. Redirects are not "
    "followed. After any other status, or no response, the delivery is sent again after 30 s, 2 "
    "min, 10 min, 1 h and 6 h, with the same `webhook-id`. A webhook whose format is Slack gets "
    '`{"text": …}` in place of this body.'
)


def webhooks() -> dict[str, Any]:
    """Return the requests that Ringside sends to a team's webhooks, for the schema."""
    return {
        kind: {"post": _webhook_operation(kind, summary, example)}
        for kind, (summary, example) in WEBHOOKS.items()
    }


def _webhook_operation(kind: str, summary: str, example: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        name: ({"type": "object" if isinstance(value, dict) else "string"})
        for name, value in example.items()
    }
    properties["type"] = {"const": kind}
    properties["arena"] = {"type": ["string", "null"]}
    schema = {"type": "object", "required": list(example), "properties": properties}
    signed = {
        "webhook-id": "Id of the delivery; the same for every attempt.",
        "webhook-timestamp": "Time of this attempt, in seconds since 1970.",
        "webhook-signature": "`v1,` and the Base64 of HMAC-SHA256 over id, timestamp and body, "
        "joined by dots (Standard Webhooks).",
    }
    return {
        "operationId": f"webhook_{kind.replace('.', '_')}",
        "summary": summary,
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": description,
                "schema": {"type": "string"},
            }
            for name, description in signed.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": example}},
        },
        "responses": {"2XX": {"description": RECEIVED}},
    }
