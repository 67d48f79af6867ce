"""Hours and money of a plan: laws of the formula, and what is said where there is nothing to go by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.cost import Cost, Measured, check_price
from jobs.plan import make_plan
from jobs.run import run
from pipeline.config import JobConfig
from pipeline.errors import ConfigurationError, UsageError
from tests import documents

costs = st.lists(
    st.tuples(st.floats(10, 5000), st.floats(0.01, 50)), min_size=1, max_size=6, unique_by=lambda cost: round(cost[0])
).map(lambda found: tuple(sorted(found)))
plans = st.lists(st.tuples(st.integers(1, 10_000), st.integers(10, 5000)), min_size=1, max_size=6)


def _measured(found: Sequence[tuple[float, float]], **changes: object) -> Measured:
    values = {
        "run_id": "r", "pages": 100, "engine_pages": 80, "engines": 2, "seconds": 100.0, "engine_s": 150.0,
        "raster_s": 20.0, "raster_bytes": 100 << 20, "costs": tuple(found), "is_same": True,
    }  # fmt: skip
    return Measured(**{**values, **changes})  # type: ignore[arg-type]


def _cost(plan: Sequence[tuple[int, int]], run: Measured, price: float = 2.0, gpus: int = 0) -> Cost:
    return Cost.of([(count, count * length) for count, length in plan], 1 << 30, run, price=price, gpus=gpus)


@given(costs)
def test_what_was_measured_costs_what_was_measured_and_all_else_lies_between(found: tuple[tuple[float, float], ...]):
    run = _measured(found)
    for length, seconds in found:
        assert run.engine_s_of(length) == pytest.approx(seconds)
    for (short, one), (long, other) in pairwise(found):
        assert min(one, other) * 0.999 <= run.engine_s_of((short + long) / 2) <= max(one, other) * 1.001
    assert run.engine_s_of(found[-1][0] * 3) == pytest.approx(found[-1][1] * 3)
    assert run.engine_s_of(found[0][0] / 2) == pytest.approx(found[0][1] / 2)


@given(costs, plans, st.integers(1, 64))
def test_money_is_that_of_the_work_and_not_of_how_many_share_it(
    found: tuple[tuple[float, float], ...], plan: list[tuple[int, int]], gpus: int
):
    run = _measured(found)
    cost, shared, twice = _cost(plan, run), _cost(plan, run, gpus=gpus), _cost([*plan, *plan], run)
    assert shared.money == pytest.approx(cost.money)
    assert shared.hours * gpus == pytest.approx(cost.hours * 2)
    assert shared.raster_cores == pytest.approx(cost.raster_cores * gpus / 2)
    assert (twice.money, twice.hours) == (pytest.approx(2 * cost.money), pytest.approx(2 * cost.hours))
    assert cost.money == pytest.approx(2.0 * cost.hours * 2)
    assert _cost(plan, run, price=6.0).money == pytest.approx(3 * cost.money)


def test_the_formula_by_hand():
    """100 pages of length 200, 80 of which go to an engine, 3 s each, by engines that work 3/4 of the time."""
    cost = _cost([(100, 200)], _measured([(100, 2.0), (300, 4.0)]))
    assert cost.gpu_hours == pytest.approx(80 * 3 / 0.75 / 3600)
    assert cost.hours == pytest.approx(80 * 3 / 0.75 / 3600 / 2)
    assert cost.pages_per_s == pytest.approx(100 / 160)
    assert cost.raster_cores == pytest.approx(100 / 160 * 0.2)
    assert cost.input_bytes_per_s == pytest.approx((1 << 30) / 160)
    assert cost.notes == ()
    assert len(_cost([(1, 1)], _measured([(1, 1)], engine_pages=9, is_same=False), gpus=4).notes) == 3
    assert _cost([], _measured([(1, 1)])).money == 0


def _job(folder: Path, *engine_options: str, **options: object) -> JobConfig:
    fixed = {"engine": "fake", "runner": "local", "progress": "none", "engine_options": engine_options}
    values = {"inputs": (str(folder),), "out": str(folder.parent / "out"), **documents.READ_EVERY_PAGE, **fixed}
    return JobConfig(**{**values, **options})  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    documents.pdf(tmp_path / "in" / "a.pdf", 8)
    documents.pdf(tmp_path / "in" / "b.pdf", 8, width_pt=600, height_pt=800)
    return tmp_path / "in"


def test_the_plan_of_what_a_run_has_read_comes_to_what_its_engines_took(folder: Path):
    report = run(_job(folder))
    plan = make_plan(_job(folder))
    plan.add_cost(report.out, 3.6, 1)
    assert plan.cost is not None
    assert plan.cost.gpu_hours * 3600 * plan.cost.busy == pytest.approx(report.totals.engine_s, rel=0.02)
    assert plan.cost.engine_pages == plan.cost.pages == 16
    assert plan.cost.notes == ("that run has read 16 pages only: the estimate is rough",)
    assert json.loads(plan.as_json())["cost"]["money"] == pytest.approx(plan.cost.gpu_hours * 3.6)
    assert "at 3.6 a GPU hour" in plan.as_text()
    rough = make_plan(_job(folder, dpi=30.0))
    rough.add_cost(report.out, 1.0, 0)
    assert rough.cost is not None
    assert "that run had other options" in rough.cost.notes[0]


def test_without_a_finished_run_one_line_says_what_to_do(folder: Path):
    plan = make_plan(_job(folder))
    with pytest.raises(UsageError, match="no such folder"):
        plan.add_cost(str(folder.parent / "nowhere"), 1.0, 0)
    with pytest.raises(ConfigurationError, match=r"no finished run of engine fake in .* to go by: read some of the"):
        plan.add_cost(str(folder), 1.0, 0)
    run(_job(folder))
    other = make_plan(_job(folder, engine="fake_stream"))
    with pytest.raises(ConfigurationError, match="no finished run of engine fake_stream"):
        other.add_cost(str(folder.parent / "out"), 1.0, 0)


def test_a_price_wants_a_run_to_go_by_and_the_other_way_round():
    assert check_price(2.0, "out", 0) is True
    assert check_price(None, "", 0) is False
    for price, out, gpus, words in (
        (2.0, "", 0, "--from OUT"),
        (None, "out", 0, "--price"),
        (-1.0, "out", 0, "a price"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            check_price(price, out, gpus)
