"""What operators set in the browser for the whole site."""

from django.db import models
from django.db.models import Q

from arena.models.constraints import check


class SiteSettings(models.Model):
    """One row; what is empty, and what the environment sets, has the value of the settings."""

    class SignUp(models.TextChoices):
        OPEN = "open", "Everybody"
        INVITED = "invited", "People with an invitation"
        CLOSED = "closed", "Nobody"

    class MailSecurity(models.TextChoices):
        STARTTLS = "starttls", "STARTTLS (usually port 587)"
        TLS = "tls", "TLS (usually port 465)"
        NONE = "none", "None (a server on this machine)"

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    site_url = models.CharField(max_length=200, blank=True)
    sign_up = models.CharField(max_length=10, choices=SignUp, blank=True)
    team_budget = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Nano-dollars (10^-9 USD)."
    )
    mail_host = models.CharField(max_length=200, blank=True)
    mail_port = models.PositiveIntegerField(default=587)
    mail_security = models.CharField(
        max_length=10, choices=MailSecurity, default=MailSecurity.STARTTLS
    )
    mail_user = models.CharField(max_length=200, blank=True)
    encrypted_mail_password = models.TextField(blank=True)
    mail_from = models.CharField(max_length=200, blank=True)

    class Meta:
        verbose_name_plural = "site settings"
        constraints = [
            check("site_settings_once", Q(id=1)),
            check("site_sign_up_known", Q(sign_up__in=["", "open", "invited", "closed"])),
            check("site_mail_port_in_bounds", Q(mail_port__gte=1, mail_port__lte=65535)),
            check("site_mail_security_known", Q(mail_security__in=["starttls", "tls", "none"])),
        ]

    def __str__(self) -> str:
        return "Settings of the site"
