"""A stream that is encrypted with a passphrase while it is written, and checked while it is read.

AES-256-GCM over chunks of 1 MiB, with a key that scrypt derives from the passphrase. The nonce of a
chunk is its number and whether it is the last, so that chunks can be neither exchanged nor cut off
(the STREAM construction: Hoang, Reyhanitabar, Rogaway and Vizar 2015).
"""

import io
import os
import struct
from typing import IO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

MAGIC = b"ringside-encrypted-1\n"
SALT, TAG, CHUNK = 16, 16, 1 << 20
SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 16, 8, 1  # 64 MB for a tenth of a second


class DecryptionError(OSError):
    """The data is not what was encrypted; the message is a sentence for people."""


def _cipher(passphrase: str, salt: bytes) -> AESGCM:
    derive = Scrypt(salt=salt, length=32, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P)
    return AESGCM(derive.derive(passphrase.encode()))


def _nonce(number: int, is_last: bool) -> bytes:
    return struct.pack(">QI", number, is_last)


class EncryptedWriter(io.RawIOBase):
    """Writes to `stream`, which stays open. Without `close()` the result cannot be read."""

    def __init__(self, stream: IO[bytes], passphrase: str) -> None:
        salt = os.urandom(SALT)
        self._stream, self._cipher = stream, _cipher(passphrase, salt)
        self._waiting, self._number = bytearray(), 0
        stream.write(MAGIC + salt)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._waiting += data
        while len(self._waiting) > CHUNK:  # the last chunk waits for close()
            self._put(bytes(self._waiting[:CHUNK]), is_last=False)
            del self._waiting[:CHUNK]
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._put(bytes(self._waiting), is_last=True)
        super().close()

    def _put(self, chunk: bytes, *, is_last: bool) -> None:
        self._stream.write(self._cipher.encrypt(_nonce(self._number, is_last), chunk, None))
        self._number += 1


class EncryptedReader(io.RawIOBase):
    """Reads what `EncryptedWriter` wrote. Raises DecryptionError at the first wrong byte."""

    def __init__(self, stream: IO[bytes], passphrase: str) -> None:
        header = stream.read(len(MAGIC) + SALT)
        if len(header) < len(MAGIC) + SALT or not header.startswith(MAGIC):
            raise DecryptionError("The file is not encrypted by Ringside, or is cut short.")
        self._stream, self._cipher = stream, _cipher(passphrase, header[len(MAGIC) :])
        self._next, self._plain, self._number = stream.read(CHUNK + TAG), b"", 0
        if not self._next:  # even an empty stream has a last chunk
            raise DecryptionError("The file is cut short.")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._plain and self._next:
            self._plain = self._take()
        size = min(len(buffer), len(self._plain))
        buffer[:size], self._plain = self._plain[:size], self._plain[size:]
        return size

    def _take(self) -> bytes:
        chunk, self._next = self._next, self._stream.read(CHUNK + TAG)
        try:
            plain = self._cipher.decrypt(_nonce(self._number, not self._next), chunk, None)
        except InvalidTag:
            raise DecryptionError(
                "The file is cut short or damaged."
                if self._number
                else "The passphrase is wrong, or the file is damaged."
            ) from None
        self._number += 1
        return plain
