# SPDX-License-Identifier: Apache-2.0
"""One exception per group of status codes, grouped by who must act.

Every exception of stoker carries ``status`` (the name, such as ``"CORRUPT"``), ``message`` (the fact seen, the value,
what was expected) and ``context`` (where: ``"rank 1: sample 17: clips/a.mp4"``, outermost first, or ``""``).

>>> issubclass(SampleError, DataError) and issubclass(DataError, StokerError)
True
"""

from __future__ import annotations

__all__ = [
    "CallerError",
    "DataError",
    "DataServerError",
    "InternalError",
    "MachineError",
    "PeerError",
    "SampleError",
    "StokerError",
    "UnsupportedError",
    "WorkerError",
    "describe",
    "make",
    "show",
]


_TEXT_MAX = 400


def describe(error: BaseException) -> str:
    """Type and text of an exception, cut; it never raises, whatever the ``__str__`` of the exception does.

    >>> describe(KeyError("a"))
    "KeyError: 'a'"
    """
    return f"{type(error).__name__}: {show(error, str)}"[:_TEXT_MAX]


def show(value, how=repr) -> str:
    """The text of any value, cut; it never raises."""
    try:
        return how(value)[:_TEXT_MAX]
    except BaseException:  # of the user's __repr__ or __str__
        return f"<{type(value).__name__} object whose text cannot be made>"


class StokerError(Exception):
    """Base of all errors of stoker."""

    status = "INTERNAL"

    def __init__(self, message: str = "", context: str = "", status: str | None = None, os_error: int = 0) -> None:
        super().__init__(f"{context}: {message}" if context else message)
        self.message = message
        self.context = context
        self.os_error = os_error
        if status is not None:
            self.status = status

    def __reduce__(self):
        return (type(self), (self.message, self.context, self.status, self.os_error), self.__dict__)


class CallerError(StokerError, ValueError):
    """The call cannot be carried out as it is (INVALID_ARGUMENT, WRONG_STATE)."""

    status = "INVALID_ARGUMENT"


class UnsupportedError(CallerError, NotImplementedError):
    """What was asked for is refused; the message names it and the reason."""

    status = "UNSUPPORTED"


class DataError(StokerError):
    """The data are at fault (NOT_FOUND, CORRUPT, MISMATCH)."""

    status = "CORRUPT"


class SampleError(DataError):
    """A sample could not be made. ``context`` names the sample and its file, ``message`` the cause."""


class MachineError(StokerError):
    """The machine is at fault (IO, NO_MEMORY, NO_SPACE, LIMIT); ``os_error`` is the errno, or 0."""

    status = "IO"


class PeerError(StokerError):
    """The other side of a connection is at fault (UNAVAILABLE, TIMEOUT, CANCELED, PROTOCOL, LOST)."""

    status = "UNAVAILABLE"


class DataServerError(PeerError):
    """The DataServer of this host is gone or cannot be reached."""


class WorkerError(PeerError):
    """Worker processes ended while they made a batch (LOST): killed, out of memory, crashed in the dataset's own code.
    ``context`` names the samples of the batch, ``message`` how the last one ended."""

    status = "LOST"


class InternalError(StokerError):
    """A bug of stoker."""


def _class_of(code: int) -> type[StokerError]:
    if code == -3:
        return UnsupportedError
    if -10 < code <= -1:
        return CallerError
    if -20 < code <= -10:
        return DataError
    if -30 < code <= -20:
        return MachineError
    if code == -30:
        return DataServerError
    if code == -34:
        return WorkerError
    if -40 < code <= -31:
        return PeerError
    return InternalError


def make(code: int, name: str, os_error: int, message: str, context: str, detail: bytes = b"") -> StokerError:
    """The exception for a failure of the C library; ``detail`` is what a worker attached to it.

    >>> make(-11, "CORRUPT", 0, "moov atom not found", "sample 17: a.mp4")
    DataError('sample 17: a.mp4: moov atom not found')
    """
    error = _class_of(code)(message, context, name, os_error)
    error.detail = detail
    return error
