"""The desk: one thread that has the model, and the batches that others bring to it.

Batches come from several threads and are read together: a page goes into the next free slot whichever batch it is of,
and its batch is told of it at once.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pipeline.engines.hunyuan.rows import Clock, Ended, Reading
from pipeline.engines.ladder import Climb, Kept, Step
from pipeline.errors import EngineBrokenError
from pipeline.page import Raster
from pipeline.result import Effort, PageRead, Recognition, Timings, one_line


class Reader(Protocol):
    """What reads pages: `advance` does the next piece of work and gives what has ended by it."""

    clock: Clock

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""

    @property
    def owners(self) -> list[object]:
        """Whose pages are read just now, one entry a page."""

    def add(self, readings: Sequence[Reading]) -> None:
        """Let pages wait for their turn."""

    def advance(self) -> list[Ended]:
        """Do the next piece of work."""

    def reset(self) -> None:
        """Forget all pages."""

    def widen(self, pages: int) -> None:
        """Read so many pages at a time from now on; called while it is idle."""


@dataclass(slots=True, eq=False)
class _Ticket:
    """A batch at the desk: what is told of it, and what it took."""

    rasters: Sequence[Raster]
    told: queue.SimpleQueue[PageRead | Exception] = field(default_factory=queue.SimpleQueue)
    clock: Clock = field(default_factory=Clock)
    num_left: int = 0

    def effort(self) -> Effort:
        """Seconds are this batch's share of what was done while it was read."""
        clock = self.clock
        timings = Timings(clock.vision_s, None, clock.prefill_s, clock.decode_s)
        return Effort(timings, clock.idle / clock.slots if clock.slots else None, None, clock.oom_splits)


@dataclass(slots=True, eq=False)
class _Page:
    """A page of a batch, on its way up the ladders."""

    ticket: _Ticket
    position: int
    raster: Raster
    climb: Climb


@dataclass(frozen=True, slots=True)
class Work:
    """What the desk is for.

    `ladders` are the ways to read a page, those of the second one in a wider precision, for which `wide_reader` makes
    the reader; `recognize` makes a row of what is kept; `translate` turns an error of the device's into one of ours.
    """

    ladders: Sequence[Sequence[Step]]
    wide_reader: Callable[[], Reader]
    recognize: Callable[[Raster, Kept], Recognition]
    translate: Callable[[Exception], Exception]


class Desk:
    """Reads batches in one thread. Once the device is broken, every batch is refused with the same error."""

    def __init__(self, reader: Reader, work: Work) -> None:
        self._reader, self._work = reader, work
        self._wide: Reader | None = None
        self._inbox: queue.SimpleQueue[_Ticket] = queue.SimpleQueue()
        self._open: list[_Ticket] = []
        self._broken: EngineBrokenError | None = None
        threading.Thread(target=self._serve, name="desk", daemon=True).start()

    def read(self, rasters: Sequence[Raster]) -> Iterator[PageRead | Effort]:
        """Bring a batch, and wait for what is told of it: each page once, and at last what it took."""
        ticket = _Ticket(rasters, num_left=len(rasters))
        self._inbox.put(ticket)
        for _ in rasters:
            told = ticket.told.get()
            if isinstance(told, Exception):
                raise told
            yield told
        yield ticket.effort()

    def widen(self, pages: int) -> None:
        """Read so many pages at a time from now on; called while no batch is at the desk."""
        self._reader.widen(pages)

    def _serve(self) -> None:
        while self._broken is None:
            try:
                self._take_tickets()
                for reader in filter(None, (self._reader, self._wide)):
                    self._advance(reader)
            except Exception as error:
                self._fail(self._work.translate(error))
        while True:
            self._inbox.get().told.put(self._broken)

    def _take_tickets(self) -> None:
        """New batches; waits for one if there is nothing else to do."""
        is_idle = self._reader.is_idle and (self._wide is None or self._wide.is_idle)
        while is_idle or not self._inbox.empty():
            ticket = self._inbox.get()
            is_idle = False
            if ticket.num_left:
                self._open.append(ticket)
            for position, raster in enumerate(ticket.rasters):
                self._read(_Page(ticket, position, raster, Climb(self._work.ladders)))

    def _read(self, page: _Page) -> None:
        """Have a page read as its climb says, or tell what is kept of it."""
        if page.climb.place is None:
            self._tell(page, self._recognized(page))
            return
        ladder, number = page.climb.place
        step = self._work.ladders[ladder][number]
        try:
            reader = self._reader_of(ladder)
        except Exception as error:  # no memory for the model once more, say: that is this page's bad luck alone
            self._tell(page, self._translated(error))
            return
        reader.add([Reading(page, page.raster.pixels, step.decoding, step.scale)])

    def _reader_of(self, ladder: int) -> Reader:
        if ladder and self._wide is None:
            self._wide = self._work.wide_reader()
        return self._wide if ladder and self._wide else self._reader

    def _translated(self, error: Exception) -> Exception:
        """One page's error. That of a broken device is no page's, and is raised."""
        translated = self._work.translate(error)
        if isinstance(translated, EngineBrokenError):
            raise translated
        return translated

    def _advance(self, reader: Reader) -> None:
        before = replace(reader.clock)
        ended = [] if reader.is_idle else reader.advance()
        self._charge(before, reader, ended)
        for one in ended:
            page = one.reading.owner
            if isinstance(one.result, Exception):
                self._tell(page, self._translated(one.result))
                continue
            page.climb.take(one.result)
            self._read(page)

    def _recognized(self, page: _Page) -> Recognition | Exception:
        try:
            return self._work.recognize(page.raster, page.climb.kept())
        except Exception as error:
            return error

    def _tell(self, page: _Page, result: Recognition | Exception) -> None:
        page.ticket.num_left -= 1
        if not page.ticket.num_left:
            self._open.remove(page.ticket)
        page.ticket.told.put(PageRead(page.position, result))

    def _charge(self, before: Clock, reader: Reader, ended: Sequence[Ended]) -> None:
        """Share out what a piece of work took among the batches whose pages were in it, page by page."""
        pages = [*reader.owners, *(one.reading.owner for one in ended)]
        now = reader.clock
        for page in pages:
            clock, share = page.ticket.clock, 1 / len(pages)
            for phase in ("vision_s", "prefill_s", "decode_s"):
                spent = getattr(now, phase) - getattr(before, phase)
                setattr(clock, phase, getattr(clock, phase) + spent * share)
        for ticket in {page.ticket for page in pages}:
            ticket.clock.slots += now.slots - before.slots
            ticket.clock.idle += now.idle - before.idle
        for ticket in self._open[:1]:
            ticket.clock.oom_splits += now.oom_splits - before.oom_splits

    def _fail(self, error: Exception) -> None:
        """What was no page's doing: all batches at the desk get to know it and may come again, if it is not broken.

        Readers are reset before that; one whose device does not even allow that is broken.
        """
        try:
            for reader in filter(None, (self._reader, self._wide)):
                if not isinstance(error, EngineBrokenError):
                    reader.reset()
        except Exception as broken:
            error = EngineBrokenError(f"{one_line(str(error))}; then {one_line(str(broken))}")
        if isinstance(error, EngineBrokenError):
            self._broken = error
        for ticket in self._open:
            ticket.told.put(error)
        self._open.clear()
