"""How the REST API is set up: Django REST framework, its limits, and what describes it."""

from environs import Env
from marshmallow.validate import Range

DESCRIPTION = """\
Ringside compares answers of language models two at a time, blind, and ranks who wrote them.

**Who asks.** A program sends `Authorization: Bearer rs_...`, a token that an owner made on the
team's page; a token acts for its team alone and has some of the scopes `read`, `submit` and
`judge`. In the browser, the session of whoever is signed in counts, with a CSRF token for writes.
What is public is read by anybody.

**Lists** come in pages: follow `next` until it is null. `page_size` goes up to 1,000.

**Writing once.** Every POST takes an `Idempotency-Key` of your choice. The same request with the
same key is carried out once within 24 hours, and every repetition gets the answer of the first,
marked `Idempotency-Replayed: true`. The same key with another request is refused with 422.

**Reading again.** Every GET has an `ETag`; send it back as `If-None-Match` and get 304 while
nothing has changed. Send it as `If-Match` with a PATCH, and nobody else's change is overwritten.

**Errors** are problem details (RFC 9457): `detail` is a sentence, and `errors` point at what is
wrong in the body (`pointer`) or in the query (`parameter`).

Money is in US dollars as a number; times are ISO 8601 in UTC.
"""


def read_limits(env: Env) -> dict[str, int]:
    """Return how many requests a minute each scope takes of one token, person or address.

    Of a team's tokens together it takes three times as many.
    """
    at_least_one = Range(min=1)
    submits = env.int("API_SUBMITS_PER_MINUTE", 600, validate=at_least_one)
    return {
        "read": env.int("API_READS_PER_MINUTE", 600, validate=at_least_one),
        "submit": submits,
        "judge": env.int("API_JUDGE_ORDERS_PER_MINUTE", 60, validate=at_least_one),
        "manage": submits,
    }


REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "arena.api.core.authentication.TokenAuthentication",
        "arena.api.core.authentication.SiteSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["arena.api.core.permissions.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["arena.api.core.parsing.CheckedJson"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_FILTER_BACKENDS": ["arena.api.core.filtering.Filters"],
    "DEFAULT_PAGINATION_CLASS": "arena.api.core.pagination.Pages",
    "DEFAULT_SCHEMA_CLASS": "arena.api.core.schema.Operations",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "arena.api.core.problems.problem_response",
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

PROBLEM = {
    "type": "object",
    "description": "What went wrong, as RFC 9457 says it.",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "description": "The kind of problem, for programs."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "A sentence for people."},
        "instance": {"type": "string", "description": "The path that was asked for."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {
                    "pointer": {"type": "string", "description": "JSON pointer into the body."},
                    "parameter": {"type": "string", "description": "Name in the query."},
                    "detail": {"type": "string"},
                },
            },
        },
    },
    "example": {
        "type": "urn:ringside:problem:invalid",
        "title": "Bad Request",
        "status": 400,
        "detail": "Name: this field is required.",
        "instance": "/api/v1/arenas/",
        "errors": [{"pointer": "#/name", "detail": "This field is required."}],
    },
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Ringside",
    "VERSION": "1",
    "DESCRIPTION": DESCRIPTION,
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1/",
    "SERVE_INCLUDE_SCHEMA": False,
    "DISABLE_DOCSTRING_DESCRIPTIONS": True,
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
    ],
    "ENUM_NAME_OVERRIDES": {
        "Visibility": "arena.models.Arena.Visibility",
        "Voters": "arena.models.Arena.Voters",
        "OutcomeOfAVote": "arena.models.Outcome",
        "RunState": "arena.models.Run.State",
        "RoleInATeam": "arena.models.Role",
    },
    "APPEND_COMPONENTS": {
        "schemas": {"Problem": PROBLEM},
        "responses": {
            "Problem": {
                "description": "A problem, told as RFC 9457 says.",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            }
        },
    },
}
