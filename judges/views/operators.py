"""The operators' pages: the first day, the settings of the site, and its health."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.actors import actor_of
from arena.errors import ServiceError
from arena.forms.base import errors_in
from arena.forms.site import SiteForm, TryMailForm
from arena.models import Backup, SiteSettings, Team
from arena.services import rate_limits
from arena.services.site import save_settings, send_test_mail
from arena.site import prints_mail
from arena.validation import join_names
from judges.first_day import first_day
from judges.views.access import operators_only
from ranking.health import MINUTE, check_health

MAILS_PER_MINUTE = 5
BACKUPS_LISTED = 20
TEAMS_LISTED = 200


@never_cache
@require_safe
@operators_only
def operators(request: HttpRequest) -> HttpResponse:
    """What is wrong, the way to the first judge run, and what a site needs besides."""
    now = timezone.now()
    context = {"day": first_day(now), "health": check_health(now)}
    return render(request, "operators/start.html", context)


@never_cache
@require_safe
@operators_only
def site_health(request: HttpRequest) -> HttpResponse:
    context = {
        "health": check_health(timezone.now()),
        "backups": Backup.objects.order_by("-made_at")[:BACKUPS_LISTED],
    }
    return render(request, "operators/health.html", context)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def site_settings(request: HttpRequest) -> HttpResponse:
    """The site's address, sign-up rule, mail server and budgets."""
    form = SiteForm(request.POST or None, row=SiteSettings.objects.first())
    if request.method == "POST" and form.is_valid():
        with errors_in(form):
            save_settings(values=form.values, password=form.password_entered, by=actor_of(request))
            messages.success(request, "Saved. It applies within ten seconds.")
            return redirect("operators_settings")
    return _render_settings(request, form)


@never_cache
@require_POST
@operators_only
def try_mail(request: HttpRequest) -> HttpResponse:
    """Send a test mail."""
    form, now = TryMailForm(request.POST), timezone.now()
    if not form.is_valid():
        row = SiteSettings.objects.first()
        return _render_settings(request, SiteForm(row=row), mail_form=form)
    key, to = f"mail-test:{request.user.pk}", form.cleaned_data["to"]
    if not rate_limits.allow(key=key, limit=MAILS_PER_MINUTE, window=MINUTE, now=now):
        messages.error(request, f"Only {MAILS_PER_MINUTE} mails a minute. Try again in a minute.")
        return redirect("operators_settings")
    try:
        send_test_mail(to=to, by=actor_of(request))
    except ServiceError as error:
        messages.error(request, error.message)
    else:
        where = "printed in the server’s log" if prints_mail() else f"sent to {to}"
        messages.success(request, f"The mail was {where}.")
    return redirect("operators_settings")


def _render_settings(
    request: HttpRequest, form: SiteForm, mail_form: TryMailForm | None = None
) -> HttpResponse:
    context = {
        "form": form,
        "mail_form": mail_form or TryMailForm(initial={"to": getattr(request.user, "email", "")}),
        "hosts": join_names(host for host in settings.ALLOWED_HOSTS if host != "testserver"),
        "prints_mail": prints_mail(),
        "teams": Team.objects.order_by("name")[:TEAMS_LISTED],
    }
    return render(request, "operators/settings.html", context)
