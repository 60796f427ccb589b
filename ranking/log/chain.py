"""The log of an arena's votes as bytes: rows, digests, links and signatures. Knows no database.

A link says what happened to a batch of votes: they were counted, or no longer count. Its digest
covers the digest of the link before and that of its own rows, so nothing in a log can be changed
without changing the last digest, its head. Heads are signed with Ed25519 (RFC 8032).
"""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from arena.outcomes import Uncounted

Ints = NDArray[np.int64]
Columns = dict[str, Ints]

# The order is part of the format, and so are these numbers.
VOTE_COLUMNS = (
    "id",
    "comparison",
    "prompt",
    "left",
    "right",
    "rater",
    "rater_kind",
    "outcome",
    "preference",
    "cast_at",
)
REMOVAL_COLUMNS = ("id", "at", "reason")
RATER_KINDS = ("person", "judge", "jury")
REASONS = (
    "other",
    "undone by the rater",
    *(reason.value for reason in Uncounted),
)
REPAIR = "repair"
NO_PREFERENCE = int(np.array(np.nan, "<f8").view("<i8"))
GENESIS = "0" * 64  # before the first link
CONTEXT = b"ringside log of votes\n"
COMPRESSION = 1  # a higher level takes three times as long for a tenth less


class RowBytesError(ValueError):
    """Rows that are not those of a link."""


def to_bytes(columns: Columns, names: Sequence[str]) -> bytes:
    """Rows as bytes: one column after the other, in signed 64-bit numbers, lowest byte first."""
    return b"".join(columns[name].astype("<i8").tobytes() for name in names)


def from_bytes(content: bytes, names: Sequence[str]) -> Columns:
    """The columns that `to_bytes` was given. Raises RowBytesError."""
    if len(content) % (8 * len(names)):
        raise RowBytesError(f"{len(content)} bytes are not rows of {len(names)} numbers")
    table = np.frombuffer(content, "<i8").astype(np.int64).reshape(len(names), -1)
    return dict(zip(names, table, strict=True))


def compress(content: bytes) -> bytes:
    return zlib.compress(content, COMPRESSION)


def decompress(packed: bytes | memoryview) -> bytes:
    """Raises RowBytesError."""
    try:
        return zlib.decompress(bytes(packed))
    except zlib.error as error:
        raise RowBytesError("these bytes are not compressed rows") from error


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def preference_bits(preference: NDArray[np.float64]) -> Ints:
    """(N,) soft verdicts as integers with the same bits; NaN, for none, always has the same
    bits."""
    bits = preference.astype("<f8").view("<i8").astype(np.int64)
    return np.where(np.isnan(preference), NO_PREFERENCE, bits)


def preferences(bits: Ints) -> NDArray[np.float64]:
    return bits.astype("<i8").view("<f8").astype(np.float64)


def rater_numbers(raters: Ints, arena_id: int, salt: bytes) -> Ints:
    """(N,) pseudonyms of raters, which only the salt connects with their ids."""
    distinct, place = np.unique(raters, return_inverse=True)
    prefix = salt + b":%d:" % arena_id
    numbers = [
        int.from_bytes(hashlib.sha256(prefix + b"%d" % pk).digest()[:8], "little", signed=True)
        for pk in distinct.tolist()
    ]
    return np.array(numbers, np.int64)[place]


@dataclass(frozen=True)
class ChainLink:
    """One link without its rows. `made_at`: ISO 8601 in UTC; the ids are None without rows."""

    number: int
    kind: str
    n_rows: int
    first_id: int | None
    last_id: int | None
    digest_of_rows: str
    made_at: str
    digest: str = ""
    key: str = ""
    signature: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def text(self, arena_id: int, previous: str) -> bytes:
        """What the digest is computed from."""
        content = {
            "arena": arena_id,
            "details": self.details,
            "first_id": self.first_id,
            "kind": self.kind,
            "last_id": self.last_id,
            "made_at": self.made_at,
            "n_rows": self.n_rows,
            "number": self.number,
            "previous": previous,
            "rows": self.digest_of_rows,
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    def signed(self, arena_id: int, previous: str, signer: "Signer") -> "ChainLink":
        """The same link with its digest, signed; `previous`: the digest of the one before."""
        digest = digest_of(self.text(arena_id, previous))
        return replace(self, digest=digest, key=signer.public, signature=signer.sign(digest))

    def head(self) -> dict[str, Any]:
        """The published part of the newest link."""
        return {
            "number": self.number,
            "digest": self.digest,
            "key": self.key,
            "signature": self.signature,
        }


class Signer:
    """Signs digests with the key in `seed`, 32 bytes in URL-safe Base64."""

    def __init__(self, seed: str) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(seed))
        self.public = self._key.public_key().public_bytes_raw().hex()

    def sign(self, digest: str) -> str:
        return self._key.sign(CONTEXT + digest.encode()).hex()


def is_signed(digest: str, key: str, signature: str) -> bool:
    """Whether the holder of the public `key` signed this digest."""
    try:
        public = Ed25519PublicKey.from_public_bytes(binascii.unhexlify(key))
        public.verify(binascii.unhexlify(signature), CONTEXT + digest.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def check_links(
    arena_id: int, links: Iterable[ChainLink], key: str, published: Iterable[str] = ()
) -> list[str]:
    """Return a sentence for each fault in the links of an arena, and then those `published`, which
    are about the heads in leaderboards.

    The site's public `key` must have signed each link. A fault that a later repair, signed by the
    site, found and accepted does not count.
    """
    previous, expected = GENESIS, 1
    faults: list[tuple[int, str]] = []
    strangers: list[int] = []
    repairs: list[ChainLink] = []
    for link in links:
        number = link.number
        if number != expected:
            faults.append((number, f"Link {expected} of the log is missing."))
        elif digest_of(link.text(arena_id, previous)) != link.digest:
            faults.append((number, f"Link {number} of the log was changed."))
        if not is_signed(link.digest, link.key, link.signature):
            faults.append((number, f"Link {number} of the log has no valid signature."))
        elif link.key != key:
            strangers.append(number)
        elif link.kind == REPAIR:
            repairs.append(link)
        previous, expected = link.digest, number + 1
    if strangers:
        last = strangers[-1]
        some = f"{len(strangers):,} links, {strangers[0]} to {last}, were"
        words = f"Link {last} was" if len(strangers) == 1 else some
        faults.append((last, f"{words} signed with a key other than the site's."))
    return [
        sentence
        for number, sentence in faults
        if not any(
            sentence in repair.details.get("accepted", ()) and repair.number > number
            for repair in repairs
        )
    ] + [
        sentence
        for sentence in published
        if not any(sentence in repair.details.get("accepted", ()) for repair in repairs)
    ]
