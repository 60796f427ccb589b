"""The ledger: one row per request to a model, written before the request is made."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.db import connection, models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from arena.endpoints import Endpoint
from arena.models.constraints import check, index, unique

CACHED_SECONDS = 5.0

Value = TypeVar("Value")


class CachedLookup(Generic[Value]):
    """Results of `look_up`, per process. Missing ones are looked up every time, unless
    `missing_too`.

    Inside a transaction nothing is cached, because it may be rolled back.
    """

    def __init__(
        self, look_up: Callable[[tuple[str, str]], Value | None], *, missing_too: bool = False
    ) -> None:
        self._look_up = look_up
        self._missing_too = missing_too
        self._cached: dict[tuple[str, str], tuple[float, Value | None]] = {}

    def get(self, key: tuple[str, str]) -> Value | None:
        if connection.in_atomic_block:
            return self._look_up(key)
        cached = self._cached.get(key)
        if cached is not None and cached[0] > time.monotonic():
            return cached[1]
        value = self._look_up(key)
        if value is not None or self._missing_too:
            self._cached[key] = (time.monotonic() + CACHED_SECONDS, value)
        return value

    def forget(self, **_: Any) -> None:
        """Forget everything; also a signal receiver."""
        self._cached.clear()


MAX_REQUESTS = 6


class CallQuerySet(models.QuerySet["Call"]):
    """Reads of the ledger; the time is passed in."""

    def in_progress(self) -> "CallQuerySet":
        """Calls that have not ended, of open runs (or no run), whose requesters are not paused."""
        paused = RunRequester.objects.filter(
            run=OuterRef("run"), requester=OuterRef("requester"), paused_at__isnull=False
        )
        return self.filter(
            Q(run=None) | Q(run__state="open"),
            ~Exists(paused),
            state__in=Call.GOING_ON,
        )

    def claimable(self, now: datetime) -> "CallQuerySet":
        """Calls that a worker may make now: due, or abandoned by a worker whose lease ended.

        A call that needs another one's reply waits until that one is done.
        """
        return (
            self.in_progress()
            .filter(Q(needs=None) | Q(needs__state=Call.State.DONE))
            .filter(
                Q(state=Call.State.WAITING, due_at__lte=now)
                | Q(state=Call.State.RUNNING, lease_expires_at__lte=now)
            )
        )

    def under_way(self, now: datetime) -> "CallQuerySet":
        """Calls that a worker holds at this moment."""
        return self.filter(state=Call.State.RUNNING, lease_expires_at__gt=now)


class Call(models.Model):
    """One request to a model, for judging or for generating an answer.

    Identity: who asks (`requester`: the digest of a judge or of a candidate), about what, in which
    order (`subject`: response ids, or a prompt id), and which `sample`. Each run has calls of its
    own, at most one of an identity, and they stay in it. Only one of all runs may make the call:
    the claim makes its call the original, and the others copy the reply (`copied`), which costs
    nothing.

    `attempts` is the fence: a worker that lost its lease finds another number there and writes
    nothing. `due_at` is when a worker may make the call, `enqueue_after` when it is handed out
    (again).

    A call may take two turns: a reply that cannot be read is kept in `reply`, and the second turn
    asks for nothing but the verdict (`repair_reply`). A reply that was cut off is asked for once
    more with `room` for that many times the tokens. Money is in nano-dollars: `cost` is what all
    its requests were billed, `reserved` is held while one is under way, `uncertain` is the most
    that cut-off requests may have cost. Tokens are the sum over its requests.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        UNREADABLE = "unreadable", "Unreadable reply"
        REFUSED = "refused", "Refused"
        TOO_LONG = "too_long", "Too long"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    GOING_ON = (State.WAITING, State.RUNNING)
    # The model answered, and would answer the same request in the same way again.
    ANSWERED = (State.DONE, State.UNREADABLE, State.REFUSED, State.TOO_LONG)

    run = models.ForeignKey(
        "arena.Run", models.CASCADE, null=True, blank=True, related_name="calls"
    )
    requester = models.CharField(max_length=64)
    subject = models.CharField(max_length=200)
    sample = models.PositiveSmallIntegerField(default=0)
    endpoint = models.CharField(max_length=100)
    model = models.CharField(max_length=200)
    needs = models.ForeignKey(
        "self", models.CASCADE, null=True, blank=True, related_name="needed_by"
    )
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    copied = models.BooleanField(
        default=False, db_default=False, help_text="The reply was copied from another run's call."
    )
    attempts = models.PositiveIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)
    requests_allowed = models.PositiveIntegerField(default=MAX_REQUESTS)
    due_at = models.DateTimeField(db_default=Now())
    enqueue_after = models.DateTimeField(db_default=Now())
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    prompt_digest = models.CharField(max_length=64, blank=True)
    nonce = models.CharField(max_length=32, blank=True)
    turn = models.PositiveSmallIntegerField(default=0)
    room = models.PositiveSmallIntegerField(default=1, db_default=1)
    reply = models.TextField(blank=True)
    repair_reply = models.TextField(blank=True)
    verdict = models.JSONField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)
    model_returned = models.CharField(max_length=200, blank=True)
    fingerprint = models.CharField(max_length=200, blank=True)
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    cost = models.PositiveBigIntegerField(default=0)
    reserved = models.PositiveBigIntegerField(default=0)
    uncertain = models.PositiveBigIntegerField(default=0)
    cut_off_requests = models.PositiveIntegerField(default=0)
    dropped = models.JSONField(default=list, blank=True)
    seconds = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = CallQuerySet.as_manager()
    # Annotated by `leases.due_call`: whether another run has the same call, and how many requests
    # in a row its endpoint has left without an answer.
    is_shared: bool
    broken: int

    class Meta:
        app_label = "arena"
        constraints = [
            # In this order, its index also finds the calls of an identity in all runs.
            unique("call_once_per_run", "requester", "subject", "sample", "run"),
            unique(
                "call_asked_by_one_run",
                "requester",
                "subject",
                "sample",
                where=Q(
                    copied=False, state__in=["running", "done", "unreadable", "refused", "too_long"]
                ),
            ),
            check(
                "call_state_known",
                Q(
                    state__in=[
                        "waiting",
                        "running",
                        "done",
                        "unreadable",
                        "refused",
                        "too_long",
                        "failed",
                        "cancelled",
                    ]
                ),
            ),
        ]
        indexes = [
            index("call_still_to_make", "due_at", where=Q(state__in=["waiting", "running"])),
        ]

    def __str__(self) -> str:
        return f"{self.subject}: {self.state}"

    @property
    def has_ended(self) -> bool:
        return self.state not in self.GOING_ON


class RunRequester(models.Model):
    """A judge in a run, or a candidate's model; paused on its own if its model or key fails, while
    the others continue."""

    run = models.ForeignKey("arena.Run", models.CASCADE, related_name="requesters")
    requester = models.CharField(max_length=64)
    endpoint = models.CharField(max_length=100)
    model = models.CharField(max_length=200)
    paused_at = models.DateTimeField(null=True, blank=True)
    pause_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        app_label = "arena"
        constraints = [
            unique("requester_once_per_run", "run", "requester"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint}:{self.model} in run {self.run_id}"


class ModelEndpoint(models.Model):
    """A model server that operators added in the browser; MODEL_ENDPOINTS has the others.

    Candidates, judges, calls and prices know it by its name, so that never changes.
    """

    class Provider(models.TextChoices):
        OPENAI = "openai", "OpenAI-like"
        ANTHROPIC = "anthropic", "Anthropic"

    name = models.CharField(max_length=100, unique=True)
    provider = models.CharField(max_length=10, choices=Provider)
    base_url = models.CharField(max_length=500)
    encrypted_key = models.TextField(blank=True)
    key_hint = models.CharField(max_length=4, blank=True, help_text="The key's last characters.")
    timeout = models.FloatField(default=120.0, help_text="Seconds.")
    concurrency = models.PositiveIntegerField(default=8)
    requests_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    tokens_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    idempotent = models.BooleanField(default=False)
    is_on = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "arena"
        constraints = [
            check("endpoint_name_not_reserved", ~Q(name__in=["", "scripted"])),
            check("endpoint_provider_known", Q(provider__in=["openai", "anthropic"])),
            check("endpoint_has_address", ~Q(base_url="")),
            check("endpoint_timeout_in_bounds", Q(timeout__gt=0, timeout__lte=3600)),
            check("endpoint_concurrency_positive", Q(concurrency__gte=1)),
            check(
                "endpoint_limits_positive",
                (Q(requests_per_minute=None) | Q(requests_per_minute__gte=1))
                & (Q(tokens_per_minute=None) | Q(tokens_per_minute__gte=1)),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def as_endpoint(self) -> Endpoint:
        return Endpoint(
            **{
                name: getattr(self, name)
                for name in (
                    *("name", "provider", "base_url", "timeout", "concurrency"),
                    *("requests_per_minute", "tokens_per_minute", "idempotent"),
                    *("encrypted_key", "is_on"),
                )
            }
        )


class Price(models.Model):
    """The price of a model, set by an operator, in nano-dollars per million tokens; 0 is a
    price."""

    endpoint = models.CharField(max_length=100)
    model = models.CharField(max_length=200)
    input_per_million = models.PositiveBigIntegerField(help_text="Nano-dollars (10^-9 USD).")
    output_per_million = models.PositiveBigIntegerField(help_text="Nano-dollars (10^-9 USD).")
    cached_per_million = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        help_text="Nano-dollars (10^-9 USD), for input from the server's cache.",
    )
    entered_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "arena"
        constraints = [
            unique("price_once_per_model", "endpoint", "model"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint}:{self.model}"


class Capability(models.Model):
    """What a model at an endpoint supports, as probed once; `dropped`: parameters rejected since.

    Null: not tried yet. An operator's last test asked one question: `test_error` is why it failed,
    "" if it did not. `model_returned` is the model name that the server reported. `replies` maps
    an effort ("": the model's own) to how long its replies were when it was measured as a judge,
    thought included: {"mean": 1612.5, "longest": 1650}, in tokens.
    """

    endpoint = models.CharField(max_length=100)
    model = models.CharField(max_length=200)
    json_schema = models.BooleanField(null=True)
    temperature = models.BooleanField(null=True)
    seed = models.BooleanField(null=True)
    logprobs = models.BooleanField(null=True)
    dropped = models.JSONField(default=list, blank=True)
    replies = models.JSONField(
        default=dict, blank=True, db_default=models.Value({}, models.JSONField())
    )
    model_returned = models.CharField(max_length=200, blank=True)
    probed_at = models.DateTimeField(null=True, blank=True)
    tested_at = models.DateTimeField(null=True, blank=True)
    test_seconds = models.FloatField(null=True, blank=True)
    test_error = models.CharField(max_length=300, blank=True, db_default="")

    class Meta:
        app_label = "arena"
        verbose_name_plural = "capabilities"
        constraints = [
            unique("capability_once_per_model", "endpoint", "model"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint}:{self.model}"


class EndpointPace(models.Model):
    """When an endpoint may be asked again, shared by all workers.

    The times (seconds since 1970) from which all requests and tokens so far are within the limits:
    the theoretical arrival times of the generic cell rate algorithm. `broken` counts the requests
    in a row that got no answer; after ten, nothing is sent before `closed_until`, and then one at a
    time.
    """

    endpoint = models.CharField(max_length=100, unique=True)
    requests_until = models.FloatField(default=0.0, db_default=0.0)
    tokens_until = models.FloatField(default=0.0, db_default=0.0)
    broken = models.PositiveIntegerField(default=0, db_default=0)
    closed_until = models.FloatField(default=0.0, db_default=0.0)

    class Meta:
        app_label = "arena"

    def __str__(self) -> str:
        return self.endpoint
