"""Every exception of Pagemill as one tree, and the codes that a failed row can carry.

    PagemillError
    ├── UsageError                  exit 2   the command or the configuration is wrong
    │   ├── ConfigurationError
    │   ├── InputError
    │   └── EngineUnavailableError
    ├── UnfinishedError             exit 3   retryable: start the same command again
    │   ├── StorageError
    │   ├── InputsLostError
    │   ├── OutputInUseError
    │   ├── ClusterError
    │   ├── EngineLostError
    │   ├── DeviceBusyError
    │   └── MachineError
    ├── EngineTrouble               never ends a job by itself: `pipeline.step` and the runner decide
    │   ├── DeviceOutOfMemoryError  narrowed; then a failed page, or a DeviceBusyError
    │   └── EngineBrokenError       retryable: another process of the engine goes on
    └── PageFault                   never ends a job: it becomes a row with status ``failed``

Exceptions end jobs, failures end pages: a `PageFault` is raised inside a rasterizing or recognizing
process and is translated there into a `pipeline.result.Failure`. What says nothing about a page (a full disk,
an endpoint that is down, a card that others fill) must not fail one: `transient` tells such errors by their type.
"""

from __future__ import annotations

import errno
from enum import StrEnum
from typing import ClassVar

EXIT_DONE = 0
EXIT_PAGES_FAILED = 1
EXIT_USAGE = 2
EXIT_UNFINISHED = 3
EXIT_OUT_OF_TIME = 4
EXIT_INTERRUPTED = 130


class PagemillError(Exception):
    """Base of all; `exit_code` is what the process ends with, `retryable` whether trying again can help."""

    exit_code: ClassVar[int] = EXIT_UNFINISHED
    retryable: ClassVar[bool] = False


class UsageError(PagemillError):
    """What was asked for makes no sense; nothing was started."""

    exit_code = EXIT_USAGE


class ConfigurationError(UsageError):
    """An option or a key of the job file is unknown or out of range."""


class InputError(UsageError):
    """An input named on the command line does not exist or cannot be understood."""


class EngineUnavailableError(UsageError):
    """The engine asked for cannot run here; the message says what it lacks."""


class UnfinishedError(PagemillError):
    """The run stopped before the end through no fault of a page; what was committed stays."""

    exit_code = EXIT_UNFINISHED
    retryable = True


class StorageError(UnfinishedError):
    """The output could not be written or read."""


class InputsLostError(UnfinishedError):
    """The store that inputs lie in cannot be reached, or lets nobody in."""


class OutputInUseError(UnfinishedError):
    """Another run writes to this output; when it has ended, the same command can start."""


class ClusterError(UnfinishedError):
    """Ray could not be started or joined, or was lost on the way."""


class EngineLostError(UnfinishedError):
    """The engine cannot be brought up or reached, or its actors keep dying."""


class DeviceBusyError(UnfinishedError):
    """One page alone finds no memory on the device, since other processes hold some of it."""


class MachineError(UnfinishedError):
    """The machine is short of something that no page is to blame for: disk, open files, processes, a library."""


class EngineTrouble(PagemillError):
    """What an engine raises to say what has happened to it, rather than to a page."""


class DeviceOutOfMemoryError(EngineTrouble):
    """The device has no memory for this batch; fewer pages at a time may fit.

    Args:
        message: One line for a person.
        held_by_others_bytes: Device memory that other processes hold, None if that cannot be known. If it is more
            than nothing, a page that does not fit alone is left for another run; otherwise it is too large.
    """

    def __init__(self, message: str, held_by_others_bytes: int | None = None) -> None:
        super().__init__(message, held_by_others_bytes)
        self.message = message
        self.held_by_others_bytes = held_by_others_bytes

    def __str__(self) -> str:
        return self.message


class EngineBrokenError(EngineTrouble):
    """The engine's process is of no more use (a lost device, a sticky CUDA error); a new one has to take over."""

    retryable = True


class ErrorCode(StrEnum):
    """Why a page or a document has no text. These words are the `error_code` column."""

    NOT_FOUND = "not_found"  #: named in a list, or found in a folder, and gone when it was opened
    UNREADABLE = "unreadable"  #: permission denied or an I/O error
    NOT_A_FILE = "not_a_file"  #: a pipe, a socket, a device
    EMPTY_FILE = "empty_file"  #: zero bytes
    UNSUPPORTED_TYPE = "unsupported_type"  #: a known or unknown kind of file that is no document
    OFFICE_DOCUMENT = "office_document"  #: an Office file or another kind to be converted first; the message says how
    EMAIL = "email"  #: a message or mailbox: its attachments have to be saved first
    UNSUPPORTED_ARCHIVE = "unsupported_archive"  #: an archive that is not looked into, or one within another
    NOT_A_DOCUMENT = "not_a_document"  #: named like a document, but its content is something else
    BROKEN_DOCUMENT = "broken_document"  #: the right kind of file, damaged beyond opening
    ENCRYPTED = "encrypted"  #: needs a password
    NO_PAGES = "no_pages"  #: opens, and has no page
    BROKEN_PAGE = "broken_page"  #: this page cannot be decoded or rendered
    DOCUMENT_TOO_LARGE = "document_too_large"  #: more bytes than the job allows
    VANISHED = "vanished"  #: the document is no longer there; only in `documents`, never in `pages`
    NOT_SELECTED = "not_selected"  #: a page that the job did not ask for
    NO_TEXT_LAYER = "no_text_layer"  #: no sound text layer, and the job asked for nothing else
    PAGE_TOO_LARGE = "page_too_large"  #: more pixels than the limit allows to decode
    PAGE_TOO_NARROW = "page_too_narrow"  #: one side is so much longer than the other that the engine refuses it
    OUT_OF_MEMORY = "out_of_memory"  #: rendering or reading this page alone ran out of memory
    PAGE_TIMEOUT = "page_timeout"  #: rendering this page took longer than the limit
    RASTERIZER_CRASHED = "rasterizer_crashed"  #: the process died each time it worked on this page
    DOCUMENT_CHANGED = "document_changed"  #: the file was replaced while the run was under way
    ENGINE_ERROR = "engine_error"  #: the engine raised on this page alone
    ENGINE_CRASHED = "engine_crashed"  #: the engine's process died each time it read this page
    ENGINE_CONTRACT = "engine_contract"  #: the engine did not answer with one result for this page


RETRYABLE_CODES = frozenset({ErrorCode.NOT_FOUND, ErrorCode.UNREADABLE, ErrorCode.DOCUMENT_CHANGED})
"""Codes of failures that are no fault of the page and may be over by the next run, which tries again by itself."""


SKIPPED_CODES = frozenset(
    {
        ErrorCode.UNSUPPORTED_TYPE,
        ErrorCode.OFFICE_DOCUMENT,
        ErrorCode.EMAIL,
        ErrorCode.UNSUPPORTED_ARCHIVE,
        ErrorCode.NOT_A_FILE,
        ErrorCode.DOCUMENT_TOO_LARGE,
        ErrorCode.NOT_SELECTED,
        ErrorCode.NO_TEXT_LAYER,
    }
)
"""Codes of what was never meant to be read: the row's status is `skipped`, and the run does not count it as failed."""


class PageFault(PagemillError):
    """A fault of one page or one document, on its way to becoming a `Failure`.

    Args:
        code: What went wrong, as the row will say it.
        detail: One line for a person.
    """

    def __init__(self, code: ErrorCode, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


_OF_THE_MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Disk space, open files, processes. ENOMEM and EAGAIN come of starting processes and mapping files, not of a page."""

_OF_THE_NETWORK = frozenset({errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ETIMEDOUT})
"""The other end cannot be reached. A `TimeoutError` without a number is none of them: a page may take too long."""


def transient(error: BaseException) -> UnfinishedError | None:
    """The error that a run must end with, if what was raised is not the fault of the page that was worked on.

    A `MemoryError` is taken for the page's: numpy and decoders raise it for sizes that no machine has, and a run
    that ended at such a page would never get beyond it. It fails the page with a code that can be retried.
    """
    ending: UnfinishedError | None = None
    said = f"{type(error).__name__}: {error}".splitlines()[0]
    match error:
        case UnfinishedError():
            ending = error
        case DeviceOutOfMemoryError(held_by_others_bytes=int(held)) if held > 0:
            todo = f"other processes hold {held / 2**30:.1f} GiB: end them or wait for them, and start again"
            ending = DeviceBusyError(f"the device has no memory left for one page, and {todo} ({error})")
        case ConnectionError():
            ending = EngineLostError(f"what the engine talks to does not answer: bring it up and start again ({said})")
        case OSError(errno=number) if number in _OF_THE_NETWORK:
            ending = EngineLostError(f"what the engine talks to is out of reach: mend that and start again ({said})")
        case OSError(errno=number) if number in _OF_THE_MACHINE:
            problem = "a machine is short of disk, open files, processes or memory"
            ending = MachineError(f"{problem}: free some and start again ({said})")
        case ImportError():
            ending = MachineError(f"a machine lacks a library: install it there and start again ({said})")
    return ending
