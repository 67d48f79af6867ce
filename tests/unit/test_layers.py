"""Imports point one way, and each library has one door: read from the source, without importing any of it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LAYERS = (
    {"pipeline"},
    {"pipeline.errors", "pipeline.scratch"},
    {
        "pipeline.selection",
        "pipeline.schedule",
        "pipeline.option",
        "pipeline.foreign",
        "pipeline.ignore",
        "pipeline.pattern",
        "pipeline.globbing",
    },
    {"pipeline.config", "pipeline.document"},
    {"pipeline.location"},
    {"pipeline.page", "pipeline.census"},
    {"pipeline.bucket"},
    {"pipeline.budget", "pipeline.expectation"},
    {"pipeline.batch"},
    {"pipeline.packer"},
    {"pipeline.result"},
    {"pipeline.order", "pipeline.block", "pipeline.soundness"},
    {"pipeline.stats", "pipeline.store", "pipeline.engines"},
    {"pipeline.shelf", "pipeline.listing"},
    {"pipeline.raster"},
    {"pipeline.table", "pipeline.source", "pipeline.oldest"},
    {"pipeline.parquet"},
    {"pipeline.lease", "pipeline.part", "pipeline.journal"},
    {"pipeline.ledger", "pipeline.audit", "pipeline.upkeep"},
    {"pipeline.task"},
    {"pipeline.intake", "pipeline.rasterizing", "pipeline.reading"},
    {"pipeline.flow", "pipeline.step", "pipeline.commit", "pipeline.rasterizer", "pipeline.placement"},
    {"pipeline.runner", "pipeline.tuning", "pipeline.vanishing"},
    {"pipeline.local", "pipeline.cluster"},
    {"jobs"},
    {"run_batch"},
)
"""Lowest first. A folder is one unit: what its modules import of each other is their own affair."""

DOORS = {
    "ray": {"pipeline.cluster"},
    "pymupdf": {"pipeline.raster"},
    "fitz": set[str](),
    "pypdfium2": {"pipeline.raster"},
    "PIL": {"pipeline.raster"},
    "pyarrow": {"pipeline.parquet", "pipeline.part", "pipeline.table"},
    "pyarrow.parquet": {"pipeline.parquet"},
    "obstore": {"pipeline.store"},
    "boto3": {"pipeline.store"},
    "botocore": {"pipeline.store"},
    "pathspec": {"pipeline.ignore"},
    "rapidocr": {"pipeline.engines"},
    "onnxruntime": {"pipeline.engines", "pipeline.raster"},
    "torch": {"pipeline.engines"},
    "transformers": {"pipeline.engines"},
    "huggingface_hub": {"pipeline.engines"},
    "typer": {"jobs"},
    "tqdm": {"jobs"},
    "matplotlib": {"jobs"},
}
"""Libraries and the only units that may import them."""

PURE = (
    *("errors", "selection", "schedule", "option", "foreign", "pattern", "document", "location", "page", "bucket"),
    *("config", "config.documents", "config.reading", "config.running"),
    *("census", "expectation", "budget", "batch", "packer", "result"),
    *("order", "block", "soundness", "stats", "task", "intake", "rasterizing", "reading", "flow", "placement"),
    *("upkeep.groups", "upkeep.retention"),
    *("audit.fault", "audit.laws", "audit.documents"),
    *("engines.generated", "engines.certainty", "engines.ladder", "engines.answer", "engines.rapid.groups"),
    *("tuning.unimodal", "tuning.figures", "tuning.trial", "tuning.estimate", "tuning.search", "tuning.tuning"),
    *("engines.hunyuan.prompts", "engines.hunyuan.spotting", "engines.hunyuan.memory"),
    *(
        "order.box",
        "order.direction",
        "order.columns",
        "order.cells",
        "order.numbered",
        "order.stories",
        "order.rows",
        "order.text",
    ),
)
"""Modules that only plan: no library, no clock, no files, no network, no randomness."""

FOR_TYPING = ("page", "block")
"""Those of them that name numpy's arrays for the type checker."""

NOT_PURE = {"asyncio", "io", "logging", "pathlib", "random", "secrets", "shutil", "socket", "subprocess", "sys"} | {
    "tempfile", "threading", "time", "urllib.request",
}  # fmt: skip


def _modules() -> dict[str, Path]:
    """Every module of the product by its dotted name."""
    found = {"run_batch": ROOT / "run_batch.py"}
    for folder in ("pipeline", "jobs"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = _modules()
_UNITS = {unit: number for number, layer in enumerate(LAYERS) for unit in layer}


def _unit(module: str) -> str:
    """The unit of LAYERS that a module of ours belongs to: the module itself, or the folder it lies in."""
    parts = module.split(".")
    candidates = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((name for name in candidates if name in _UNITS and (name != "pipeline" or module == name)), module)


@cache
def _imports(module: str) -> tuple[str, ...]:
    """All that a module imports, however deep inside a function, and for typing only as well."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return tuple(name for node in ast.walk(tree) for name in _names(module, node))


def _names(module: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{module} imports relatively"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in MODULES else str(node.module)


def _ours(module: str) -> set[str]:
    return {name for name in _imports(module) if name.split(".")[0] in {"pipeline", "jobs", "run_batch"}}


def test_every_module_has_a_layer():
    assert {_unit(module) for module in MODULES} <= set(_UNITS)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_one_way(module: str):
    mine = _unit(module)
    others = {_unit(name) for name in _ours(module)} - {mine}
    assert all(other in _UNITS for other in others), f"{module} imports what is in no layer: {others}"
    wrong = sorted(other for other in others if _UNITS[other] >= _UNITS[mine])
    assert not wrong, f"{module} must not import {wrong}"


@pytest.mark.parametrize(
    "folder",
    [
        *("jobs", "pipeline.audit", "pipeline.cluster", "pipeline.config", "pipeline.engines", "pipeline.order"),
        *("pipeline.raster", "pipeline.tuning", "pipeline.upkeep"),
    ],
)
def test_modules_of_one_folder_import_each_other_in_no_circle(folder: str):
    inside = {m: {i for i in _ours(m) if i != m and _unit(i) == folder} for m in MODULES if _unit(m) == folder}
    while inside:
        free = [module for module, imports in inside.items() if not imports & set(inside)]
        assert free, f"a circle among {sorted(inside)}"
        for module in free:
            del inside[module]


@pytest.mark.parametrize("library", DOORS)
def test_each_library_has_one_door(library: str):
    used = {_unit(m) for m in MODULES if any(f"{name}.".startswith(f"{library}.") for name in _imports(m))}
    assert used <= DOORS[library]


@pytest.mark.parametrize("name", [name for name in PURE if f"pipeline.{name}" in MODULES])
def test_a_module_that_plans_imports_nothing_that_acts(name: str):
    foreign = {i for i in _imports(f"pipeline.{name}") if i.split(".")[0] not in {"pipeline", *sys.stdlib_module_names}}
    assert foreign <= ({"numpy.typing"} if name in FOR_TYPING else set())
    assert not {i for i in _imports(f"pipeline.{name}") if i in NOT_PURE}


@pytest.mark.parametrize("name", [name for name in PURE if f"pipeline.{name}" in MODULES])
def test_a_module_that_plans_opens_no_file(name: str):
    tree = ast.parse(MODULES[f"pipeline.{name}"].read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"open", "print", "input", "exec", "eval"}


@pytest.mark.parametrize("name", FOR_TYPING)
def test_numpy_is_for_typing_only_where_pages_are_planned(name: str):
    tree = ast.parse(MODULES[f"pipeline.{name}"].read_text(encoding="utf-8"))
    at_run_time = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [i for node in at_run_time for i in _names(f"pipeline.{name}", node) if i.startswith("numpy")]
