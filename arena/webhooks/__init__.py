"""Signed webhooks to addresses that teams type in. Knows no Django and no settings."""

from arena.webhooks.addresses import TargetRefused, check_target, forbidden
from arena.webhooks.connecting import DeliveryFailed, ReceiverGone
from arena.webhooks.sending import Sent, send
from arena.webhooks.signing import new_secret, sign, verify

__all__ = [
    "DeliveryFailed",
    "ReceiverGone",
    "Sent",
    "TargetRefused",
    "check_target",
    "forbidden",
    "new_secret",
    "send",
    "sign",
    "verify",
]
