"""The routes of a site that has an OpenID Connect server."""

from arena.urls import urlpatterns as without
from arena.views.urls import oidc_urls

urlpatterns = [*oidc_urls(), *without]
