"""The routes of a site that has an OpenID Connect server."""

from arena.urls import oidc_urls
from arena.urls import urlpatterns as without

urlpatterns = [*oidc_urls(), *without]
