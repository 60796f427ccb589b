"""The baseline of Celery with the SDK: a task that asks a model and does nothing else."""

from celery import shared_task

from arena.calls.providers.base import Message, Request
from arena.endpoints import endpoint_named, provider_for

ASKED = Request(
    "judge-7b-2024-07-01",
    (
        Message("system", "End with a line VERDICT-0123456789abcdef: A. " * 20),
        Message("user", "Which answer is better? " * 150),
    ),
    {"temperature": 0, "max_tokens": 1024},
)


@shared_task(ignore_result=True)
def ask() -> None:
    provider_for(endpoint_named("local")).complete(ASKED)
