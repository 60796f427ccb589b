"""What may be done to a run through the API, whoever is asked in it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from django.utils import timezone
from django_filters import rest_framework as filters
from rest_framework.response import Response

from arena.api.core.endpoint import NumberedEndpoint
from arena.api.core.fields import Dollars, Given
from arena.models import Run
from arena.services.steering import Steering


class RunFilters(filters.FilterSet):
    state = filters.ChoiceFilter(choices=Run.State.choices, help_text="In this state alone.")

    class Meta:
        model = Run
        fields = ["state"]


class ResumeGiven(Given):
    """Another cap, where the run is to have one."""

    cap = Dollars(required=False, allow_null=True)


class OfRun(NumberedEndpoint, ABC):
    """Whatever is about one run; its kind says which runs there are, and who may steer them."""

    queryset = Run.objects.none()
    steering: Steering

    @property
    @abstractmethod
    def run(self) -> Run:
        """The run that the path names."""

    @abstractmethod
    def shown(self) -> Response:
        """Answer with the run as it stands."""

    @abstractmethod
    def require_steering(self) -> None:
        """Refuse whoever may not steer the run."""

    @abstractmethod
    def ring(self) -> None:
        """Have workers start at once what is let go on."""

    def pause(self) -> Response:
        return self._steer(self.steering.pause)

    def resume(self) -> Response:
        cap = self.given(ResumeGiven).get("cap")
        return self._steer(self.steering.resume, cap=cap, now=timezone.now())

    def cancel(self) -> Response:
        return self._steer(self.steering.cancel, now=timezone.now())

    def retry(self) -> Response:
        return self._steer(self.steering.ask_failures_again, now=timezone.now())

    def _steer(self, action: Callable[..., None], **how: Any) -> Response:
        """Do `action` to the run, and answer with how it stands then."""
        self.require_steering()
        action(run=self.run, by=self.actor, **how)
        self.ring()
        return self.shown()
