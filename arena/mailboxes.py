"""Email addresses that reach the same mailbox."""

import re

GMAIL = ("gmail.com", "googlemail.com")  # one mailbox, with dots anywhere or nowhere
LONGEST_ADDRESS = 254  # as in the account tables; user names are shorter


def mailbox(email: str) -> str:
    """Return the shortest address of the mailbox where mail to this one arrives."""
    name, _, host = email.lower().rpartition("@")
    name = name.partition("+")[0]
    return f"{name.replace('.', '')}@{GMAIL[0]}" if host in GMAIL else f"{name}@{host}"


def mailbox_pattern(email: str) -> str:
    """Return a regular expression for the addresses whose mail arrives in the same mailbox."""
    name, _, host = mailbox(email).rpartition("@")
    hosts, dots = (GMAIL, r"\.?") if host in GMAIL else ((host,), "")
    letters = dots.join(map(re.escape, name))
    return rf"^{letters}(\+[^@]*)?@({'|'.join(map(re.escape, hosts))})$"
