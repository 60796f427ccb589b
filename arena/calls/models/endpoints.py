"""What is known of model servers: prices, abilities, and how fast they may be asked."""

from django.db import models
from django.db.models.functions import Now


class Price(models.Model):
    """What an operator says a model costs, in nano-dollars per million tokens; 0 is a price."""

    endpoint = models.CharField(max_length=100)
    model = models.CharField(max_length=200)
    input_per_million = models.PositiveBigIntegerField(help_text="Nano-dollars (10^-9 USD).")
    output_per_million = models.PositiveBigIntegerField(help_text="Nano-dollars (10^-9 USD).")
    entered_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "arena"
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "model"], name="price_once_per_model"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint}:{self.model}"


class Capability(models.Model):
    """What a model at an endpoint can do, as probed once; `dropped` is what it refused since.

    Null means that nobody has tried. `model_returned` is the name it answered with at the probe.
    """

    endpoint = models.CharField(max_length=100)
    model = models.CharField(max_length=200)
    json_schema = models.BooleanField(null=True)
    temperature = models.BooleanField(null=True)
    seed = models.BooleanField(null=True)
    logprobs = models.BooleanField(null=True)
    dropped = models.JSONField(default=list, blank=True)
    model_returned = models.CharField(max_length=200, blank=True)
    probed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        app_label = "arena"
        verbose_name_plural = "capabilities"
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "model"], name="capability_once_per_model"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint}:{self.model}"


class EndpointPace(models.Model):
    """When an endpoint may be asked again, shared by all workers.

    Seconds since 1970 at which all that was asked so far will have been within the limits (the
    generic cell rate algorithm's theoretical arrival times, of requests and of tokens).
    """

    endpoint = models.CharField(max_length=100, unique=True)
    requests_until = models.FloatField(default=0.0)
    tokens_until = models.FloatField(default=0.0)

    class Meta:
        app_label = "arena"

    def __str__(self) -> str:
        return self.endpoint
