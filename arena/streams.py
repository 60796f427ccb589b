"""The answers to a live question as they are written: read from two models in one event loop of
the process, and shown at one pace.

State is in the database alone. What is here lives as long as one response to one browser: when that
ends, for whatever reason, both answers end.
"""

import asyncio
import logging
import time
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from threading import Event, Thread

from arena.calls.execution import PlannedRequest
from arena.calls.models import Call
from arena.calls.providers.base import ModelRefusedError, ProviderError, Reply
from arena.models import Candidate, LiveConversation, LiveTurn
from arena.pacer import Pacer
from arena.self_identification import mask_names

log = logging.getLogger(__name__)

HELD_BACK = 40  # characters at least, while names are masked: they may be a part of one
CLOSING = 1.5  # seconds that a stream may take to close
SILENT = "The model answered nothing."


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """The loop in which this process reads all streams, in a thread of its own."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="streams", daemon=True).start()
    return loop


@dataclass(eq=False)
class StreamedAnswer:
    """One candidate's answer. `error` says why there is none, or why it broke off."""

    candidate: Candidate
    call: Call | None = None
    plan: PlannedRequest | None = None
    masked_names: tuple[str, ...] | None = None
    received: str = ""
    thought: int = 0
    reply: Reply | None = None
    error: ProviderError | None = None
    seconds: float = 0.0
    _reading: "Future[None] | None" = None
    _closed: Event = field(default_factory=Event)

    def start(self) -> None:
        if self.plan is not None and self.error is None:
            self._reading = asyncio.run_coroutine_threadsafe(self._read(self.plan), event_loop())

    async def _read(self, plan: PlannedRequest) -> None:
        began = time.monotonic()
        try:
            async with aclosing(plan.provider.stream(plan.request)) as parts:
                async for part in parts:
                    if isinstance(part, Reply):
                        self.reply = part
                    else:
                        self.received += part.text
                        self.thought += part.thought
        except ModelRefusedError as refusal:  # an answer like any other
            self.received = self.received or str(refusal)
            self.reply = refusal.reply or Reply("")
        except ProviderError as error:
            self.error = error
        except Exception:
            log.exception("A stream of candidate %s broke off", self.candidate.pk)
            self.error = ProviderError("The stream broke off.")
        finally:
            self.seconds = time.monotonic() - began
            self._closed.set()
        if self.reply is not None and not self.text.strip():
            self.error = ProviderError(SILENT, self.reply)

    def close(self) -> None:
        """End the request now, if it is under way, and wait until its connection is closed."""
        if self._reading is not None and not self._reading.done():
            self._reading.cancel()
            self._closed.wait(CLOSING)

    @property
    def text(self) -> str:
        """What was received, as text that every database stores: a character may come in two."""
        try:
            self.received.encode()
        except UnicodeEncodeError:
            pairs = self.received.encode("utf-16-le", "surrogatepass")
            return pairs.decode("utf-16-le", "ignore").replace("\0", "")
        return self.received.replace("\0", "")

    @property
    def has_ended(self) -> bool:
        return self.reply is not None or self.error is not None

    @property
    def written(self) -> str:
        """What may be shown so far."""
        if self.masked_names is None:
            return self.text
        text = mask_names(self.text, names=self.masked_names)
        return text if self.has_ended else text[: -max(HELD_BACK, *map(len, self.masked_names))]


class LiveStream:
    """Two answers to the newest question of a conversation, and the events that show them."""

    def __init__(
        self, conversation: LiveConversation, turn: LiveTurn, answers: list[StreamedAnswer]
    ) -> None:
        self.conversation = conversation
        self.turn = turn
        self.answers = answers
        self.pacer = Pacer()
        self.is_finished = False
        self._sent = [0, 0]

    def start(self) -> None:
        for answer in self.answers:
            answer.start()

    @property
    def texts(self) -> list[str]:
        """What is stored of each answer: what was shown, and without masks if that is all."""
        return [
            answer.text if self.is_all_shown else answer.written[:sent]
            for answer, sent in zip(self.answers, self._sent, strict=True)
        ]

    def next_parts(self, now: float) -> list[str]:
        """What each answer may show beyond what was sent."""
        written = [answer.written for answer in self.answers]
        ended = [answer.has_ended for answer in self.answers]
        upto = self.pacer.advance([len(text) for text in written], ended, now)
        parts = [text[sent:upto] for text, sent in zip(written, self._sent, strict=True)]
        self._sent = [sent + len(part) for sent, part in zip(self._sent, parts, strict=True)]
        return parts

    @property
    def is_all_shown(self) -> bool:
        return all(
            answer.reply is not None and answer.error is None and sent >= len(answer.written)
            for answer, sent in zip(self.answers, self._sent, strict=True)
        )

    def broken(self) -> StreamedAnswer | None:
        return next((answer for answer in self.answers if answer.error is not None), None)
