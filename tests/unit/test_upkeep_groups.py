"""Which parts are put together: laws over any sizes and runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.part import PartName
from pipeline.upkeep.groups import SizedPart, groups, merged_name

runs = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=8), max_size=8)
TARGET = 100


def _parts(sizes: list[list[int]]) -> list[SizedPart]:
    return [
        SizedPart(PartName("pages", "2026-12-01", f"2026120{run}T-ab", number), size)
        for run, of_run in enumerate(sizes)
        for number, size in enumerate(of_run)
    ]


def _carried_out(parts: list[SizedPart]) -> tuple[list[SizedPart], dict[str, tuple[SizedPart, ...]]]:
    """What lies there after the groups were put together, in the order of keys, and what each new part is made of."""
    found = list(groups(parts, TARGET))
    left, made, names = set(parts), dict[str, tuple[SizedPart, ...]](), [part.name for part in parts]
    for group in found:
        new = SizedPart(merged_name(group, names), sum(part.size_bytes for part in group))
        names.append(new.name)
        left = (left - set(group)) | {new}
        made[new.name.key] = group
    return sorted(left, key=lambda part: part.name.key), made


@given(runs)
def test_a_group_is_two_neighbours_or_more_within_the_target(sizes: list[list[int]]):
    parts = _parts(sizes)
    for group in groups(parts, TARGET):
        first = parts.index(group[0])
        assert list(group) == parts[first : first + len(group)]
        assert len(group) > 1
        assert sum(part.size_bytes for part in group) <= TARGET


@given(runs)
def test_no_row_of_an_older_run_comes_after_one_of_a_newer_run_however_often_parts_are_put_together(
    sizes: list[list[int]],
):
    parts, rows = _parts(sizes), {part.name.key: [part.name.run_id] for part in _parts(sizes)}
    for _ in range(3):
        parts, made = _carried_out(parts)
        rows |= {key: [run for part in group for run in rows[part.name.key]] for key, group in made.items()}
        in_order = [run for part in parts for run in rows[part.name.key]]
        assert in_order == sorted(in_order)
        assert len(in_order) == sum(map(len, sizes))
        names = [PartName.of_key(part.name.key) for part in parts]
        assert names == [part.name for part in parts], "each is known by its key"
        later = [SizedPart(PartName("pages", "2026-12-01", "20261209T-ab", 0), 10)]
        assert sorted([*parts, *later], key=lambda part: part.name.key)[-1] == later[0]


@given(runs)
def test_what_was_put_together_once_is_left_in_peace(sizes: list[list[int]]):
    """Sizes add up here; it is enough that two neighbours which would fit are never left apart for long."""
    parts = _parts(sizes)
    for _ in range(4):
        parts, made = _carried_out(parts)
    assert not made


def test_a_day_of_many_small_runs_becomes_one_part():
    parts, _ = _carried_out(_parts([[1]] * 9))
    assert [(part.name.run_id, part.name.number, part.size_bytes) for part in parts] == [("20261208T-ab-compact", 0, 9)]
    assert parts[0].name.is_merged
    assert parts[0].name.newest_run == "20261208T-ab"
