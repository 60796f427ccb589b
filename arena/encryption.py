"""Secrets that operators enter are stored encrypted, with a key that is not in the database."""

from base64 import urlsafe_b64encode

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

# What a key is derived for: one kind of secrets cannot be put in another's place.
ENDPOINT_KEYS = "keys of model endpoints"
MAIL_PASSWORD = "password of the mail server"  # noqa: S105  (a label)


class KeyChangedError(Exception):
    """The secret was encrypted with another SECRET_KEY."""


def encrypt(text: str, label: str) -> str:
    return _cipher(label).encrypt(text.encode()).decode()


def decrypt(encrypted: str, label: str) -> str:
    """Return the text that was encrypted for `label`. Raises KeyChangedError."""
    try:
        return _cipher(label).decrypt(encrypted).decode()
    except InvalidToken:
        raise KeyChangedError from None


def _cipher(label: str) -> Fernet:
    derive = HKDF(SHA256(), length=32, salt=None, info=f"ringside {label}".encode())
    return Fernet(urlsafe_b64encode(derive.derive(settings.SECRET_KEY.encode())))
