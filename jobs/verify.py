"""`pagemill verify`: an audit of an output against its inputs; nothing is written."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

from tqdm import tqdm

from jobs.run import absolute
from pipeline.audit.fault import Fault, FaultCode
from pipeline.audit.output import Audit
from pipeline.document import Document, Source, path_of_uri
from pipeline.errors import EXIT_DONE, EXIT_PAGES_FAILED, InputError, PageFault, UsageError
from pipeline.lease import writer
from pipeline.listing import LEASE_FOLDER
from pipeline.location import is_remote, location_of_uri
from pipeline.raster import identify, members_of
from pipeline.source import Discovery
from pipeline.store import Store
from pipeline.store.objects import look
from pipeline.table import SCHEMAS

_READERS = 4
"""Inputs hashed at a time: enough to keep a disk busy, few enough not to make one seek."""

_CHUNK = 256


@dataclass(slots=True)
class Verdict:
    """What an audit has found; `notes` are no faults."""

    audit: Audit
    num_inputs: int = 0
    hashed: bool = True
    notes: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[Fault]:
        """All faults, kinds in the order of `FaultCode`, each in the order it was met."""
        order = {code: number for number, code in enumerate(FaultCode)}
        return sorted(self.audit.faults, key=lambda fault: order[fault.code])

    @property
    def exit_code(self) -> int:
        """0 if all is well, 1 if not."""
        return EXIT_PAGES_FAILED if self.audit.faults else EXIT_DONE

    def as_json(self) -> str:
        """The verdict for a program to read."""
        audit, faults = self.audit, self.faults
        values = {
            "out": audit.store.location,
            "exit_code": self.exit_code,
            "run_under_way": audit.run_under_way,
            "documents": len(audit.documents),
            "pages": audit.documents.num_pages(),
            "rows": audit.num_rows,
            "parts": audit.num_parts,
            "finished_runs": len(audit.runs),
            "unfinished_runs": audit.num_unfinished_runs,
            "inputs": self.num_inputs,
            "hashed": self.hashed,
            "notes": self.notes,
            "faults_by_code": Counter(str(fault.code) for fault in faults),
            "faults": [
                {"code": str(f.code), "where": f.where, "message": f.message, "remedy": f.remedy} for f in faults
            ],
        }
        return json.dumps(values)

    def as_text(self) -> str:
        """The verdict for a person to read: how much was looked at, how many faults of each kind, and each of them."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        audit, faults = self.audit, self.faults
        how = "" if self.hashed else " (by size and time of change only)"
        more = f" and {audit.num_unfinished_runs} unfinished" if audit.num_unfinished_runs else ""
        yield f"output     {audit.store.location}"
        runs = _many(len(audit.runs), "finished run") + more
        yield f"looked at  {_many(audit.num_rows, 'row')} in {_many(audit.num_parts, 'part')}, {runs}"
        yield f"documents  {len(audit.documents)} with {_many(audit.documents.num_pages(), 'page')}"
        yield f"inputs     {self.num_inputs} compared{how}"
        yield from (f"note       {note}" for note in self.notes)
        if not faults:
            yield "faults     none"
            return
        yield f"faults     {len(faults)}"
        counts = Counter(fault.code for fault in faults)
        yield from (f"{count:>10} {code}" for code, count in counts.items())
        for fault in faults:
            remedy = f" ({fault.remedy})" if fault.remedy else ""
            yield f"{fault.code}: {fault.where}: {fault.message}{remedy}"


def verify(out: str, inputs: Sequence[str], *, hash_inputs: bool = True) -> Verdict:
    """Audit an output, and hold it against the inputs given, or else against those of its newest finished run.

    What that run was told to leave out is left out in either case.

    Raises:
        UsageError: `out` is no output of Pagemill, or an input that was given does not exist.
        StorageError: the output cannot be read.
    """
    store = Store.existing(out)
    if not any(map(store.holds, (LEASE_FOLDER, *SCHEMAS))):
        raise UsageError(f"{out} is no output of Pagemill: it has no folder {', '.join(SCHEMAS)} or {LEASE_FOLDER}")
    discovery = _given(store, inputs)
    holder = writer(store, datetime.now(UTC))
    audit = Audit.of(store, holder.run_id if holder else None)
    verdict = Verdict(audit, hashed=hash_inputs)
    if holder is not None:
        verdict.notes.append(
            f"run {holder.run_id} is under way on {holder.host} (process {holder.pid}): what it has not committed "
            "is missing yet"
        )
    if discovery is None:
        discovery = _of_newest_run(verdict)
    elif audit.runs:
        discovery.exclude = audit.runs[-1].exclude
    _compare(verdict, discovery)
    return verdict


def _given(store: Store, inputs: Sequence[str]) -> Discovery | None:
    if not inputs:
        return None
    discovery = Discovery(tuple(map(absolute, inputs)), (), store.location)
    discovery.check()
    return discovery


def _of_newest_run(verdict: Verdict) -> Discovery:
    """The inputs of the newest finished run, but for those that are not there any more."""
    audit = verdict.audit
    if not audit.runs:
        message = "no finished run: inputs unknown, so nothing was compared with them"
        audit.faults.append(Fault(FaultCode.NO_FINISHED_RUN, audit.store.location, message))
        return Discovery(())
    newest, there = audit.runs[-1], []
    for given in newest.inputs:
        try:
            if given.startswith("@") and not os.path.isfile(given[1:]):  # a pipe, for one, is read only once
                raise InputError(f"list file {given[1:]} is no file")
            Discovery((given,), newest.exclude, audit.store.location).check()
            there.append(given)
        except InputError as error:
            verdict.notes.append(f"an input of run {newest.run_id} was left out: {error}")
    return Discovery(tuple(there), newest.exclude, audit.store.location)


def _compare(verdict: Verdict, discovery: Discovery) -> None:
    """Every source against the rows of its document; then what is in the output and not among the sources."""
    documents, found, num_unreadable = verdict.audit.documents, set[str](), 0
    looked_at = _looked_at(_with_members(discovery), hash_inputs=verdict.hashed)
    for source, document in tqdm(looked_at, "comparing", unit=" inputs", leave=False, disable=None):
        verdict.num_inputs += 1
        found.add(source.uri)
        if document is None:
            num_unreadable += 1
            fault = documents.compare(source.uri, None)
        elif verdict.hashed:
            fault = documents.compare(source.uri, document.document_id)
        else:
            fault = documents.compare_unhashed(source.uri, document.size_bytes, document.etag)
        if fault is not None:
            verdict.audit.faults.append(fault)
    if num_unreadable:
        verdict.notes.append(
            f"{_many(num_unreadable, 'input')} not readable now: only that there is a row was looked at"
        )
    _note_others(verdict, found)


def _note_others(verdict: Verdict, found: set[str]) -> None:
    documents = verdict.audit.documents
    others = [uri for uri in documents if uri not in found]
    with ThreadPoolExecutor(_READERS) as pool:
        gone = [uri for uri, is_there in zip(others, pool.map(_is_there, others), strict=True) if not is_there]
    incomplete = sum(not documents.is_complete(uri) for uri in gone)
    if gone:
        ending = f", {incomplete} of them with pages never read" if incomplete else ""
        verdict.notes.append(f"{_many(len(gone), 'document')} of the output no longer where it was found{ending}")
    if len(others) > len(gone):
        verdict.notes.append(f"{_many(len(others) - len(gone), 'document')} of the output not among the inputs")


def _is_there(uri: str) -> bool:
    return look(location_of_uri(uri)) is not None if is_remote(uri) else os.path.lexists(path_of_uri(uri))


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _with_members(discovery: Discovery) -> Iterator[Source]:
    """The sources, with the members of archives in the place of these; an archive that cannot be read stands itself."""
    for source in discovery.sources():
        members: Sequence[Source] = ()
        if source.problem is None:
            with suppress(PageFault):
                members, loss = members_of(identify(source.uri, hash_content=False, hint=source.etag))
                if loss:
                    yield source
        yield from discovery.within(members) if members else (source,)


def _looked_at(sources: Iterator[Source], *, hash_inputs: bool) -> Iterator[tuple[Source, Document | None]]:
    """Each source and what it is, None if it cannot be read; several are hashed at a time, in order."""

    def looked(source: Source) -> tuple[Source, Document | None]:
        try:
            if source.problem is not None:
                return source, None
            return source, identify(source.uri, hash_content=hash_inputs, hint=source.etag)
        except PageFault:
            return source, None

    with ThreadPoolExecutor(_READERS) as pool:
        while chunk := list(islice(sources, _CHUNK)):
            yield from pool.map(looked, chunk)
