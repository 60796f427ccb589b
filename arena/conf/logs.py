"""What a line of the log leaves out."""

import logging


class NoTracebackOfRefusals(logging.Filter):
    """Django logs a 403 with the traceback of whoever raised it; faults of ours keep theirs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
            record.exc_info = record.exc_text = None
        return True
