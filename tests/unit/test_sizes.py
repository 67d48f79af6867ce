"""Small enough to hold: how long a module and a function may be, how deep it may nest, and that it says what it is."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from .test_layers import MODULES

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_NESTING = 4

LONG_MODULES = {
    "pipeline.flow": "one state machine; its halves would have to share all of their state",
}
"""Modules of more than 300 lines, and why they are not two."""

_NESTS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def _functions(module: str) -> Iterator[_Function]:
    return (node for node in ast.walk(_tree(module)) if isinstance(node, _Function))


def _lines_of_code(path: Path) -> set[int]:
    """Numbers of the lines that hold more than a comment."""
    idle = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in idle]
    return {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}


def _docstring_lines(function: _Function) -> set[int]:
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return set()


def _nesting(node: ast.AST) -> int:
    """How deep the statements below stand in one another; `elif` is no deeper than its `if`."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        deepest = max(deepest, _nesting(child) + (isinstance(child, _NESTS) and not is_elif))
    return deepest


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_module_is_too_long_to_hold(module: str):
    num_lines = len(MODULES[module].read_text(encoding="utf-8").splitlines())
    assert num_lines <= MAX_MODULE_LINES
    assert num_lines <= 300 or module in LONG_MODULES, f"{module} has {num_lines} lines and no reason to"


def test_every_module_excused_for_its_length_needs_it():
    short = [m for m in LONG_MODULES if len(MODULES[m].read_text(encoding="utf-8").splitlines()) <= 300]
    assert not short


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_function_is_too_long_to_see_at_once(module: str):
    code = _lines_of_code(MODULES[module])
    for function in _functions(module):
        lines = set(range(function.lineno, (function.end_lineno or 0) + 1)) & code - _docstring_lines(function)
        assert len(lines) <= MAX_FUNCTION_LINES, f"{module}.{function.name} has {len(lines)} lines"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_function_nests_too_deep_to_follow(module: str):
    for function in _functions(module):
        assert _nesting(function) <= MAX_NESTING, f"{module}.{function.name} nests {_nesting(function)} deep"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_exception_is_caught_without_a_name(module: str):
    bare = [n.lineno for n in ast.walk(_tree(module)) if isinstance(n, ast.ExceptHandler) and n.type is None]
    assert not bare


@pytest.mark.parametrize("module", sorted(MODULES))
def test_everything_public_says_what_it_is(module: str):
    silent = [] if ast.get_docstring(_tree(module)) else [module]
    silent += list(_silent(_tree(module), module))
    assert not silent


def _silent(parent: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
    for node in parent.body:
        if isinstance(node, _Function | ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield f"{name}.{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from _silent(node, f"{name}.{node.name}")
