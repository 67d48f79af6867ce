"""Airflow: a night as a DAG of one task. Copy this file to the folder of your DAGs (Airflow 2.10 or 3).

The totals of the night are the task's return value (XCom), as JSON, for tasks that follow.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

try:
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG
from airflow.providers.standard.operators.bash import BashOperator

NIGHT = "/etc/pagemill/nightly.toml"

COMMAND = f"pagemill nightly {NIGHT} --json --progress lines || [ $? -eq 4 ]"
"""4 says that it was time to stop: for Airflow that is a success."""

with DAG(
    "pagemill_nightly",
    description="Read the documents that are new",
    schedule="0 23 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),  # noqa: UP017 (Airflow 2 runs on Python 3.8, too)
    catchup=False,
    max_active_runs=1,
    tags=["ocr"],
) as dag:
    BashOperator(
        task_id="nightly",
        bash_command=COMMAND,
        append_env=True,
        retries=2,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=10),
    )
