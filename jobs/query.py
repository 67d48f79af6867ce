"""`pagemill query`: SQL over an output, by DuckDB: whatever one types, or one of the questions of ``jobs/queries/``.

The tables are there as the views `pages`, `documents`, `batches` and `runs`, and the newest row of each page as
`latest`. Nothing is written to the output.
"""

from __future__ import annotations

import glob
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError
from pipeline.parquet import part_keys
from pipeline.store import Store
from pipeline.table import SCHEMAS

QUERIES = Path(__file__).parent / "queries"
_PARAMETER = re.compile(r"-- \$(\w+) = ([^:\n]*): (.+)")
_MOST_ROWS = 200
_WIDTH = 200
"""Characters of a table that goes to no terminal."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that a question wants to be told; without `default` it must be."""

    name: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Question:
    """A query of ``jobs/queries/``: what it tells, what it wants to know, its SQL."""

    name: str
    tells: str
    parameters: tuple[Parameter, ...]
    sql: str

    @classmethod
    def read(cls, path: Path) -> Question:
        """Read a file, whose first line says what it tells and whose next ones give its parameters."""
        text = path.read_text(encoding="utf-8")
        parameters = tuple(Parameter(name, value.strip(), what) for name, value, what in _PARAMETER.findall(text))
        return cls(path.stem, text.partition("\n")[0].removeprefix("-- "), parameters, text)


def questions() -> list[Question]:
    """All questions, by name."""
    return [Question.read(path) for path in sorted(QUERIES.glob("*.sql"))]


def as_text(known: Sequence[Question]) -> str:
    """What can be asked, for a person to read."""
    lines = []
    for question in known:
        lines.append(f"{question.name:<18} {question.tells}")
        for item in question.parameters:
            default = f" ({item.default})" if item.default else ""
            lines.append(f"{'':<18}   --set {item.name}=...: {item.meaning}{default}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave: a relation of DuckDB, or nothing if it was a statement."""

    _relation: Any

    def as_text(self, width: int = _WIDTH) -> str:
        """A table for a person to read, cut after some rows."""
        if self._relation is None:
            return ""
        with _refusals(), redirect_stdout(io.StringIO()) as shown:
            self._relation.show(max_rows=_MOST_ROWS, max_width=width)
        return shown.getvalue().rstrip("\n")

    def as_json(self) -> str:
        """A list of rows for a program to read; times as ISO text."""
        if self._relation is None:
            return "[]"
        with _refusals():
            rows = self._relation.to_arrow_table().to_pylist()
        return json.dumps(rows, default=_plain, ensure_ascii=False)


def query(out: str, asked: str, values: Sequence[str] = ()) -> Answer:
    """Ask an output something.

    Args:
        out: The folder that runs have written to.
        asked: SQL, or the name of a question.
        values: Parameters as NAME=VALUE; SQL names them as ``$NAME``.

    Raises:
        UsageError: there is no such folder or question, a parameter is missing or unknown, or DuckDB refuses the SQL.
        StorageError: the output cannot be read.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigurationError("pagemill query needs DuckDB: pip install 'pagemill[query]'") from error
    given = _pairs(values)
    sql = asked
    if not re.search(r"\s", asked.strip()):
        question = _named(asked.strip())
        sql, given = question.sql, _filled(question, given)
    store = Store.existing(out)
    with _refusals():
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for table in SCHEMAS:
            _add_view(connection, store, table)
        connection.execute(f"CREATE VIEW latest AS {_named('latest').sql}")
        return Answer(connection.sql(sql, params=given) if given else connection.sql(sql))


def _add_view(connection: Any, store: Store, table: str) -> None:
    """A table as a view; one of which nothing was written yet has its columns and no row."""
    if not part_keys(store, table):
        connection.register(table, SCHEMAS[table].empty_table())
        return
    pattern = f"{glob.escape(store.location)}/{table}/*/*.parquet".replace("'", "''")
    source = f"read_parquet('{pattern}', hive_partitioning = true, union_by_name = true)"
    connection.execute(f"CREATE VIEW {table} AS SELECT * FROM {source}")  # noqa: S608 (the pattern is quoted)


def _named(name: str) -> Question:
    for question in questions():
        if question.name == name:
            return question
    known = ", ".join(question.name for question in questions())
    raise ConfigurationError(f"there is no question '{name}'; write SQL, or one of {known}")


def _pairs(values: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in values:
        name, separator, value = pair.partition("=")
        if not separator or not name.isidentifier():
            raise ConfigurationError(f"--set {pair}: write NAME=VALUE")
        found[name] = value
    return found


def _filled(question: Question, given: dict[str, str]) -> dict[str, str]:
    """The parameters of a question, those that were not given by their defaults."""
    known = {item.name: item for item in question.parameters}
    for name in given:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes none"
            raise ConfigurationError(f"--set {name}: the question '{question.name}' {takes}")
    values = {name: given.get(name, item.default) for name, item in known.items()}
    for name, value in values.items():
        if not value.strip():
            raise ConfigurationError(f"the question '{question.name}' wants --set {name}=...: {known[name].meaning}")
    return values


@contextmanager
def _refusals() -> Iterator[None]:
    """What DuckDB says no to, as one line; it reads a relation only once its rows are asked for."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise ConfigurationError(" ".join(str(error).split("\n\n")[0].split())) from error


def _plain(value: Any) -> Any:
    """What JSON has no word for: sums of whole numbers, which DuckDB gives as decimals of 128 bits, and times."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.isoformat() if isinstance(value, date | time) else str(value)
