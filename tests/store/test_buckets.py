"""From one bucket to another, night after night: the whole program as a process against a server of S3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipeline.store import Store
from tests import documents
from tests.store import servers
from tests.store.conftest import s3_variables

Put = Callable[[str, bytes], None]
ROOT = Path(__file__).resolve().parents[2]


def command(endpoint: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, str(ROOT / "run_batch.py"), *arguments], {**os.environ, **s3_variables(endpoint)}


def night(endpoint: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """One run: its exit code, its totals and what it has said."""
    argv, environment = command(endpoint, *arguments, "--engine", "fake", "--runner", "local", "--json")
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def rows(out: str, sql: str) -> list[tuple[Any, ...]]:
    """What DuckDB reads from the store itself, through a filesystem that is registered with it."""
    store = Store.existing(out)
    connection = duckdb.connect()
    connection.register_filesystem(store.as_filesystem())
    for table in ("pages", "documents"):
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{store.url}/{table}/*/*.parquet'")
    return connection.sql(sql).fetchall()


@pytest.fixture
def one_page(tmp_path: Path) -> Callable[[str], bytes]:
    """A PDF of one page that is like no other."""
    documents.pdf(tmp_path / "one.pdf", 1)
    data = (tmp_path / "one.pdf").read_bytes()
    return lambda name: data + f"\n% {name}\n".encode()


@pytest.mark.timeout(600)
def test_2500_objects_interrupted_once_and_finished_the_next_night_with_new_changed_and_vanished_ones(
    bucket: str, put: Put, s3_endpoint: str, one_page: Callable[[str], bytes]
):
    client = servers.client(s3_endpoint)
    client.create_bucket(Bucket=f"{bucket}-out")
    source, out = f"s3://{bucket}/in/", f"s3://{bucket}-out/the rows"
    keys = [f"in/{number % 7}/{number:04d}.pdf" for number in range(2500)]
    for key in keys:
        put(key, one_page(key))

    argv, environment = command(s3_endpoint, source, out, "--engine", "fake", "--runner", "local")
    running = subprocess.Popen([*argv, "--commit-pages", "100"], env=environment, stderr=subprocess.DEVNULL)
    give_up = time.monotonic() + 120
    while not client.list_objects_v2(Bucket=f"{bucket}-out", Prefix="the rows/pages/").get("KeyCount"):
        assert time.monotonic() < give_up
        time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == 130
    (first,) = rows(out, "SELECT count(*) FROM pages")[0]
    assert 0 < first < 2500

    new = [f"in/new/{number}.pdf" for number in range(10)]
    changed, gone = keys[:2500:500], keys[100:400:100]
    for key in [*new, *changed]:
        put(key, one_page(f"another {key}"))
    for key in gone:
        client.delete_object(Bucket=bucket, Key=key)
    code, totals, _ = night(s3_endpoint, source, out)
    assert code == 0

    there = sorted(f"s3://{bucket}/{key}" for key in {*keys, *new} - set(gone))
    latest = rows(
        out,
        """SELECT uri, count(*) FROM pages JOIN (
               SELECT uri, document_id FROM documents
               QUALIFY row_number() OVER (PARTITION BY uri ORDER BY run_id DESC) = 1) USING (uri, document_id)
           GROUP BY uri ORDER BY uri""",
    )
    assert latest == [(uri, 1) for uri in there]
    assert rows(out, "SELECT count(*) FROM pages WHERE status NOT IN ('ok', 'text_layer')") == [(0,)]
    assert rows(out, "SELECT count(*) FROM (SELECT DISTINCT uri, document_id FROM pages)") == rows(
        out, "SELECT count(*) FROM pages"
    )
    again, nothing, _ = night(s3_endpoint, source, out)
    assert (again, nothing["pages"], nothing["documents"]) == (0, 0, 0)
    assert nothing["pages_already_done"] == len(there)
    told = Counter(code for (code,) in rows(out, "SELECT error_code FROM documents WHERE error_code IS NOT NULL"))
    read_before_they_went = totals["documents_vanished"]
    assert told == ({"vanished": read_before_they_went} if read_before_they_went else {})
    assert totals["documents_new"] + first - read_before_they_went >= len(there) - len(changed)
    audited = subprocess.run(
        [sys.executable, "-c", "from jobs.cli import main; main()", "verify", out, source, "--json"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert json.loads(audited.stdout)["faults"] == []


def test_an_object_that_changes_or_goes_between_listing_and_reading_has_a_row_that_says_so(
    bucket: str, put: Put, s3_endpoint: str, one_page: Callable[[str], bytes]
):
    put("in/a.pdf", one_page("a"))
    put("in/gone.pdf", one_page("gone"))
    client = servers.client(s3_endpoint)

    def fault(line: str, _number: int) -> str | None:
        if line.startswith("GET") and "/in/a.pdf" in line:
            client.delete_object(Bucket=bucket, Key="in/gone.pdf")
        return None

    with servers.Proxy(int(s3_endpoint.rpartition(":")[2]), fault) as proxy:
        code, _, _ = night(proxy.endpoint, f"s3://{bucket}/in/", f"s3://{bucket}/out")
    assert code == 1
    assert rows(f"s3://{bucket}/out", "SELECT uri, status, error_code FROM pages ORDER BY uri") == [
        (f"s3://{bucket}/in/a.pdf", "text_layer", None),
        (f"s3://{bucket}/in/gone.pdf", "failed", "not_found"),
    ]


def test_a_bad_line_costs_time_and_no_row(bucket: str, put: Put, s3_endpoint: str, one_page: Callable[[str], bytes]):
    for number in range(30):
        put(f"in/{number:02d}.pdf", one_page(str(number)))

    def fault(line: str, number: int) -> str | None:
        return ("503", "cut", "drop")[number // 5 % 3] if number % 5 == 0 else None

    with servers.Proxy(int(s3_endpoint.rpartition(":")[2]), fault) as proxy:
        code, _, said = night(proxy.endpoint, f"s3://{bucket}/in/", f"s3://{bucket}/out", "--commit-pages", "5")
    assert code == 0, said
    assert rows(f"s3://{bucket}/out", "SELECT count(*), count(DISTINCT uri) FROM pages") == [(30, 30)]


def test_no_secret_is_in_a_row_or_in_what_is_said(
    bucket: str, put: Put, s3_endpoint: str, one_page: Callable[[str], bytes], tmp_path: Path
):
    put("in/a.pdf", one_page("a"))
    _, totals, said = night(s3_endpoint, f"s3://{bucket}/in/", str(tmp_path / "out"))
    everything = said + json.dumps(totals)
    for table in ("pages", "documents", "batches", "runs"):
        for path in (tmp_path / "out").glob(f"{table}/*/*.parquet"):
            everything += str(duckdb.sql(f"SELECT * FROM '{path}'").fetchall())
    assert f"s3://{bucket}/in/a.pdf" in everything
    assert servers.SECRET not in everything
    assert servers.KEY not in everything


def test_an_archive_in_a_bucket_is_looked_into_and_fetched_once(
    bucket: str, put: Put, s3_endpoint: str, one_page: Callable[[str], bytes], tmp_path: Path
):
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(20):
            archive.writestr(f"d/{number:02d}.pdf", one_page(str(number)))
    put("in/many.zip", packed.getvalue())
    with servers.Proxy(int(s3_endpoint.rpartition(":")[2])) as proxy:
        code, _, said = night(proxy.endpoint, f"s3://{bucket}/in/", str(tmp_path / "out"))
    assert code == 0, said
    uris = duckdb.sql(f"SELECT DISTINCT uri FROM '{tmp_path}/out/pages/*/*.parquet' ORDER BY 1").fetchall()
    assert uris == [(f"s3://{bucket}/in/many.zip!/d/{number:02d}.pdf",) for number in range(20)]
    assert sum(line.startswith("GET") and "many.zip" in line for line in proxy.requests) == 1
