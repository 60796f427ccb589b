"""Streams that are encrypted with a passphrase: read back whole, or refused."""

import io
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.services import backups
from arena.services.backups import DecryptionError, EncryptedReader, EncryptedWriter


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks, and a fast key derivation."""
    monkeypatch.setattr(backups, "CHUNK", 64)
    monkeypatch.setattr(backups, "SCRYPT_N", 2)


def encrypt(plain: bytes, passphrase: str = "a passphrase", piece: int = 50) -> bytes:
    target = io.BytesIO()
    with closing(EncryptedWriter(target, passphrase)) as stream:
        for start in range(0, len(plain), piece):
            stream.write(plain[start : start + piece])
    return target.getvalue()


def decrypt(sealed: bytes, passphrase: str = "a passphrase") -> bytes:
    return io.BufferedReader(EncryptedReader(io.BytesIO(sealed), passphrase)).read()


@settings(deadline=None)
@given(plain=st.binary(max_size=300), piece=st.integers(1, 200))
def test_what_was_written_is_read(plain: bytes, piece: int) -> None:
    assert decrypt(encrypt(plain, piece=piece)) == plain


@pytest.mark.parametrize("size", [0, 1, 64, 65, 128, 1000])
def test_every_cut_is_noticed(size: int) -> None:
    sealed = encrypt(b"x" * size)
    for length in range(len(sealed)):
        with pytest.raises(DecryptionError):
            decrypt(sealed[:length])


def test_every_changed_byte_is_noticed() -> None:
    sealed = encrypt(b"x" * 200)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(DecryptionError):
            decrypt(bytes(changed))


def test_exchanged_chunks_are_noticed() -> None:
    sealed = encrypt(b"a" * 64 + b"b" * 64 + b"c" * 64)
    start = len(backups.MAGIC) + backups.SALT
    first, second = start + 64 + backups.TAG, start + 2 * (64 + backups.TAG)
    with pytest.raises(DecryptionError, match="wrong, or the file is damaged"):
        decrypt(sealed[:start] + sealed[first:second] + sealed[start:first] + sealed[second:])


def test_a_wrong_passphrase_is_refused_with_a_reason() -> None:
    with pytest.raises(DecryptionError, match="The passphrase is wrong"):
        decrypt(encrypt(b"secret"), "another")


def test_nothing_of_the_plain_text_is_in_the_file() -> None:
    assert b"secret" not in encrypt(b"secret" * 50)
