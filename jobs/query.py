"""`pagemill query`: SQL over an output, by DuckDB: whatever one types, or one of the questions of ``jobs/queries/``.

The tables are there as the views `pages`, `documents`, `batches` and `runs`, and the newest row of each page as
`latest`. Nothing is written to the output.
"""

from __future__ import annotations

import glob
import io
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError
from pipeline.option import nearest, parse_pairs
from pipeline.parquet import part_keys
from pipeline.store import Store
from pipeline.table import SCHEMAS

QUERIES = Path(__file__).parent / "queries"
_NAME = re.compile(r"\$(\w+)")
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

    def filled(self, values: Sequence[str]) -> dict[str, str]:
        """Its parameters, those that are not among `values`, NAME=VALUE each, by their defaults.

        Raises:
            ConfigurationError: one is unknown, or one without a default is missing.
        """
        if values and not self.parameters:
            raise ConfigurationError(f"the question '{self.name}' takes no --set")
        given = parse_pairs(values, [item.name for item in self.parameters], "--set")
        found = {item.name: given.get(item.name, item.default) for item in self.parameters}
        for item in self.parameters:
            if not found[item.name].strip():
                raise ConfigurationError(f"the question '{self.name}' wants --set {item.name}=...: {item.meaning}")
        return found


def questions() -> dict[str, Question]:
    """All questions by name."""
    return {path.stem: Question.read(path) for path in sorted(QUERIES.glob("*.sql"))}


def listing() -> str:
    """What can be asked, for a person to read."""
    lines = []
    for question in questions().values():
        lines.append(f"{question.name:<18} {question.tells}")
        for item in question.parameters:
            default = f" ({item.default})" if item.default else ""
            lines.append(f"{'':<18}   --set {item.name}=...: {item.meaning}{default}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave: a relation of DuckDB, or nothing if it was a statement."""

    _relation: Any

    def as_text(self) -> str:
        """A table for a person to read, as wide as the terminal and cut after some rows."""
        if self._relation is None:
            return ""
        width = shutil.get_terminal_size((_WIDTH, 0)).columns
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
    asked, known = asked.strip(), questions()
    if asked in known:
        sql, given = known[asked].sql, known[asked].filled(values)
    elif " " in asked or "\n" in asked:
        sql, given = asked, parse_pairs(values, _NAME.findall(asked), "--set")
    else:
        raise ConfigurationError(f"there is no question '{asked}'{nearest(asked, list(known))}")
    store = Store.existing(out)
    try:
        filesystem = store.as_filesystem()
    except ImportError as error:
        raise ConfigurationError("an object store is asked through fsspec: pip install 'pagemill[query]'") from error
    with _refusals():
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        if filesystem is not None:
            connection.register_filesystem(filesystem)
        for table in SCHEMAS:
            _add_view(connection, store, table)
        connection.execute(f"CREATE VIEW latest AS {known['latest'].sql}")
        return Answer(connection.sql(sql, params=given) if given else connection.sql(sql))


def _add_view(connection: Any, store: Store, table: str) -> None:
    """A table as a view; one of which nothing was written yet has its columns and no row."""
    if not part_keys(store, table):
        connection.register(table, SCHEMAS[table].empty_table())
        return
    pattern = f"{glob.escape(store.url)}/{table}/*/*.parquet".replace("'", "''")
    source = f"read_parquet('{pattern}', hive_partitioning = true, union_by_name = true)"
    connection.execute(f"CREATE VIEW {table} AS SELECT * FROM {source}")  # noqa: S608 (the pattern is quoted)


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
