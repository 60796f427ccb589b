"""The operators' pages about models: their servers, keys and prices, and tests of them."""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from arena.actors import actor_of
from arena.calls.models import ModelEndpoint
from arena.calls.providers.base import EndpointStoppedError, ProviderError
from arena.calls.trials import in_plain_words, models_at, try_model
from arena.endpoints import UnknownEndpointError, endpoint_named, key_of
from arena.errors import ServiceError
from arena.forms.base import errors_in
from arena.forms.endpoints import KINDS, AddModelForm, EndpointForm, ModelForm, known_models_of
from arena.services import rate_limits
from arena.services.endpoints import (
    ModelEndpointError,
    add_endpoint,
    change_endpoint,
    set_model,
    switch_endpoint,
)
from judges.first_day import first_day
from judges.services.endpoints import (
    ListedEndpoint,
    delete_endpoint,
    list_endpoints,
    remove_model,
)
from judges.views.access import operators_only
from ranking.health import MINUTE

TESTS_PER_MINUTE = 20
TOO_MANY_TESTS = f"Only {TESTS_PER_MINUTE} tests a minute. Try again in a minute."


@never_cache
@sensitive_post_parameters("key")
@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def models(request: HttpRequest) -> HttpResponse:
    """All endpoints with their models, and a form that adds and tests one."""
    kind = request.POST.get("kind") or request.GET.get("kind") or "openai"
    if kind not in KINDS:
        raise Http404
    form = AddModelForm(request.POST or None, kind=kind)
    if request.method == "POST" and form.is_valid():
        with errors_in(form):
            name = _add_model(request, form)
            if not form.cleaned_data["model"]:
                return redirect(f"{reverse('operators_endpoint', args=[name])}?find=1")
            _test(request, name, form.cleaned_data["model"])
            return redirect("operators_models")
    context = {
        "form": form,
        "kind": kind,
        "kinds": KINDS,
        "known": known_models_of(kind),
        "endpoints": list_endpoints(),
        "next_step": first_day(timezone.now()).next_step,
    }
    return render(request, "operators/models.html", context)


@transaction.atomic
def _add_model(request: HttpRequest, form: AddModelForm) -> str:
    """Add the endpoint, unless it is there, and the model; return the endpoint's name."""
    clean, by, now = form.cleaned_data, actor_of(request), timezone.now()
    provider = KINDS[form.kind].provider
    there = ModelEndpoint.objects.filter(
        name=clean["name"], provider=provider, base_url=clean["base_url"]
    ).first()
    if there is None:
        values = {"provider": provider, "base_url": clean["base_url"]}
        there = add_endpoint(name=clean["name"], values=values, key=clean["key"], by=by, now=now)
    elif clean["key"]:
        raise ModelEndpointError(
            f"{there.name} is there already. Leave the key empty to use the one it has; to replace"
            " it, edit the server.",
            field="key",
        )
    if clean["model"]:
        set_model(endpoint=there.name, model=clean["model"], price=form.price, by=by, now=now)
        _say_where_from(request, form)
    return there.name


def _say_where_from(request: HttpRequest, form: ModelForm) -> None:
    if known := form.filled_in:
        messages.warning(
            request,
            f"The price of {known.name} is from our list, as of {known.date:%-d %B %Y}. Check it.",
        )


def _may_test(request: HttpRequest) -> bool:
    key, now = f"model-test:{request.user.pk}", timezone.now()
    return rate_limits.allow(key=key, limit=TESTS_PER_MINUTE, window=MINUTE, now=now)


def _test(request: HttpRequest, endpoint: str, model: str) -> None:
    """Ask a model one question, and say what came of it."""
    if not _may_test(request):
        messages.error(request, TOO_MANY_TESTS)
        return
    try:
        tested = try_model(endpoint, model, timezone.now())
    except UnknownEndpointError as error:
        messages.error(request, str(error))
        return
    (messages.success if tested.works else messages.error)(request, tested.sentence)


@never_cache
@sensitive_post_parameters("key")
@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def endpoint(request: HttpRequest, name: str) -> HttpResponse:
    """One endpoint: its address, key, limits and models. POST changes, switches or deletes it."""
    listed = _listed(name)
    row, form = listed.row, None
    if row and not listed.is_given:
        saving = request.POST.get("action") == "save"
        initial = {name: getattr(row, name) for name in EndpointForm.base_fields if name in CHANGED}
        form = EndpointForm(request.POST if saving else None, initial=initial)
        if saving and form.is_valid():
            with errors_in(form):
                change_endpoint(
                    endpoint=row,
                    values=form.values,
                    key=form.key_entered,
                    by=actor_of(request),
                    now=timezone.now(),
                )
                messages.success(request, "Saved. It applies within ten seconds.")
                return redirect("operators_endpoint", row.name)
    if row and request.method == "POST" and not (form and form.is_bound):
        return _switch_or_delete(request, row)
    return _render_endpoint(request, listed, form=form)


CHANGED = {
    *("base_url", "concurrency", "requests_per_minute", "tokens_per_minute"),
    *("timeout", "idempotent"),
}


def _switch_or_delete(request: HttpRequest, row: ModelEndpoint) -> HttpResponse:
    action, by = request.POST.get("action"), actor_of(request)
    if action == "delete":
        try:
            delete_endpoint(endpoint=row, by=by)
        except ServiceError as error:
            messages.error(request, error.message)
            return redirect("operators_endpoint", row.name)
        messages.success(request, f"{row.name} is deleted.")
        return redirect("operators_models")
    if action not in ("on", "off"):
        raise Http404
    switch_endpoint(endpoint=row, is_on=action == "on", by=by, now=timezone.now())
    messages.success(request, f"{row.name} is switched {action}.")
    return redirect("operators_endpoint", row.name)


@never_cache
@require_POST
@operators_only
def endpoint_model(request: HttpRequest, name: str) -> HttpResponse:
    """Set a model's price, test it, or remove it."""
    listed, action = _listed(name), request.POST.get("action")
    page = redirect("operators_endpoint", name)
    model = request.POST.get("model", "")
    if action == "test":
        _test(request, name, model)
        return redirect("operators_models") if request.POST.get("from") == "list" else page
    if action == "remove":
        try:
            remove_model(endpoint=name, model=model, by=actor_of(request))
        except ServiceError as error:
            messages.error(request, error.message)
        return page
    form = ModelForm(request.POST, kind=_kind_of(listed))
    if form.is_valid():
        with errors_in(form):
            set_model(
                endpoint=name,
                model=form.cleaned_data["model"],
                price=form.price,
                by=actor_of(request),
                now=timezone.now(),
            )
            _say_where_from(request, form)
            if action == "add":
                _test(request, name, form.cleaned_data["model"])
            else:
                messages.success(request, "Saved. It applies within ten seconds.")
            return page
    return _render_endpoint(request, listed, model_form=form)


def _listed(name: str) -> ListedEndpoint:
    for listed in list_endpoints():
        if listed.endpoint.name == name:
            return listed
    raise Http404


def _kind_of(listed: ListedEndpoint) -> str:
    """Return the kind whose well-known models these are likely to be."""
    if ":11434" in listed.endpoint.base_url:
        return "ollama"
    return listed.endpoint.provider


def _render_endpoint(
    request: HttpRequest,
    listed: ListedEndpoint,
    *,
    form: EndpointForm | None = None,
    model_form: ModelForm | None = None,
) -> HttpResponse:
    found: dict[str, Any] = {}
    chosen = request.GET.get("model", "")[:200]
    if request.method == "GET" and request.GET.get("find"):
        found = _find_models(request, listed)
    kind = _kind_of(listed)
    known = {one.name: one for one in known_models_of(kind)}
    price = known.get(chosen)
    free = "0" if kind == "ollama" else None
    initial = {
        "model": chosen,
        "input": price.input if price else free,
        "output": price.output if price else free,
        "cached": price.cached if price else None,
    }
    context = {
        "listed": listed,
        "endpoint": listed.endpoint,
        "key": _key_in_words(listed),
        "form": form or EndpointForm(),
        "model_form": model_form or ModelForm(kind=kind, initial=initial),
        "as_of": price.date if price and not model_form else None,
        "known": list(known.values()),
        "found": found,
    }
    return render(request, "operators/endpoint.html", context)


def _find_models(request: HttpRequest, listed: ListedEndpoint) -> dict[str, Any]:
    """Ask the server for its models; say how many there are, or why it lists none."""
    if not _may_test(request):
        return {"problem": TOO_MANY_TESTS}
    try:
        names = models_at(endpoint_named(listed.endpoint.name))
    except (ProviderError, UnknownEndpointError) as error:
        problem = in_plain_words(error) if isinstance(error, ProviderError) else str(error)
        return {"problem": f"The models could not be listed. {problem}. Type the name instead."}
    here = {model.name for model in listed.models}
    return {"count": len(names), "names": [name for name in names if name not in here]}


def _key_in_words(listed: ListedEndpoint) -> dict[str, str]:
    """Say where the key is from, or what is wrong with it; never the key."""
    endpoint = listed.endpoint
    try:
        has_key = bool(key_of(endpoint))
    except EndpointStoppedError as error:
        return {"problem": str(error)}
    if not has_key:
        return {"state": "none"}
    if listed.is_given:
        return {"state": f"from {endpoint.key_env or endpoint.key_file}"}
    return {"state": f"…{listed.row.key_hint}" if listed.row and listed.row.key_hint else "set"}
