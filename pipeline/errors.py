"""Every exception of Pagemill as one tree, and the codes that a failed row can carry.

    PagemillError
    ├── UsageError                  exit 2   the command or the configuration is wrong
    │   ├── ConfigurationError
    │   ├── InputError
    │   └── EngineUnavailableError
    ├── UnfinishedError             exit 3   start the same command again
    │   ├── StorageError
    │   ├── OutputInUseError
    │   ├── ClusterError
    │   └── EngineLostError
    └── PageFault                   never ends a job: it becomes a row with status ``failed``

Exceptions end jobs, failures end pages: a `PageFault` is raised inside a rasterizing or recognizing
process and is translated there into a `pipeline.result.Failure`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

EXIT_DONE = 0
EXIT_PAGES_FAILED = 1
EXIT_USAGE = 2
EXIT_UNFINISHED = 3
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


class OutputInUseError(UnfinishedError):
    """Another run writes to this output; when it has ended, the same command can start."""


class ClusterError(UnfinishedError):
    """Ray could not be started or joined, or was lost on the way."""


class EngineLostError(UnfinishedError):
    """The engine cannot be brought up, or its actors keep dying."""


class ErrorCode(StrEnum):
    """Why a page or a document has no text. These words are the `error_code` column."""

    NOT_FOUND = "not_found"  #: named in a list, or found in a folder, and gone when it was opened
    UNREADABLE = "unreadable"  #: permission denied or an I/O error
    NOT_A_FILE = "not_a_file"  #: a pipe, a socket, a device
    EMPTY_FILE = "empty_file"  #: zero bytes
    UNSUPPORTED_TYPE = "unsupported_type"  #: a known or unknown kind of file that is no document
    NOT_A_DOCUMENT = "not_a_document"  #: named like a document, but its content is something else
    BROKEN_DOCUMENT = "broken_document"  #: the right kind of file, damaged beyond opening
    ENCRYPTED = "encrypted"  #: needs a password
    NO_PAGES = "no_pages"  #: opens, and has no page
    BROKEN_PAGE = "broken_page"  #: this page cannot be decoded or rendered
    PAGE_TOO_LARGE = "page_too_large"  #: more pixels than the limit allows to decode
    OUT_OF_MEMORY = "out_of_memory"  #: decoding or rendering ran out of memory
    PAGE_TIMEOUT = "page_timeout"  #: rendering this page took longer than the limit
    RASTERIZER_CRASHED = "rasterizer_crashed"  #: the process died each time it worked on this page
    DOCUMENT_CHANGED = "document_changed"  #: the file was replaced while the run was under way
    ENGINE_ERROR = "engine_error"  #: the engine raised on this page alone
    ENGINE_CRASHED = "engine_crashed"  #: the engine's process died each time it read this page
    ENGINE_CONTRACT = "engine_contract"  #: the engine did not answer with one result for this page


RETRYABLE_CODES = frozenset({ErrorCode.NOT_FOUND, ErrorCode.UNREADABLE, ErrorCode.DOCUMENT_CHANGED})
"""Codes of failures that are no fault of the page and may be over by the next run, which tries again by itself."""


SKIPPED_CODES = frozenset({ErrorCode.UNSUPPORTED_TYPE, ErrorCode.NOT_A_FILE})
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
