"""The experiments of an arena, and the page of one: drafts, a try, the measurement, the verdict."""

from django.http import HttpRequest, HttpResponse


def experiment(request: HttpRequest, slug: str, pk: int = 0) -> HttpResponse:
    return HttpResponse()


experiments = new_experiment = add_draft = save_draft = promote = enter = try_drafts = start = (
    stop
) = delete = experiment
