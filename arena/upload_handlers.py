"""What a form may bring, wherever it is sent: Django itself bounds the fields, not the files."""

from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler

from arena.uploads import AT_MOST_BYTES

AROUND_A_FILE = 2_000_000  # what a form may have besides the file


class BoundedForms(FileUploadHandler):
    """The first of the handlers: turns a form that is too large down before any of it is kept."""

    def handle_raw_input(
        self,
        input_data: Any,
        META: Any,  # noqa: N803  (as Django names it)
        content_length: int,
        boundary: Any,
        encoding: Any = None,
    ) -> None:
        if content_length > AT_MOST_BYTES + AROUND_A_FILE:
            raise RequestDataTooBig("The form is larger than any form here may be.")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        """Hand the data on to the handlers that keep it."""
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """Leave the file to the others too."""
