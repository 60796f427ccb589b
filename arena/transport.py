"""The queue of one machine: kombu's `filesystem://`, whose messages appear whole."""

from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from kombu.exceptions import OperationalError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    supports_fanout = False

    def _put(  # type: ignore[override]  # the stubs of its two bases differ
        self, queue: str, message: Any, **kwargs: Any
    ) -> None:
        """Write a message under another name first.

        kombu's own writes in place, and a worker that reads half a message ends with a traceback.
        """
        name = f"{round(1000 * monotonic())}_{uuid4()}.{queue}"
        draft = Path(self.data_folder_out, f"{name}.draft")
        try:
            draft.write_text(dumps(message), encoding="utf-8")
            draft.rename(draft.with_suffix(".msg"))
        except OSError as error:  # such as a full disk
            raise OperationalError(str(error)) from error


class Transport(filesystem.Transport):
    Channel = Channel
