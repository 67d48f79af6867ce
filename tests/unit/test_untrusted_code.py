"""Nothing that comes from outside is run: no code out of files, strings or models, and no shell."""

from __future__ import annotations

import ast

import pytest

from .test_layers import MODULES

UNPICKLES = {"pipeline.raster.quarantine"}
"""What reads pickles, and of whom: of its own child, over a pipe."""

_UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle", "torch", "yaml"}
_RUN = {"eval", "exec", "compile", "__import__"}
_SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "pty.spawn"}


def _name(node: ast.expr) -> str:
    """The dotted name of what is called, as far as it is one."""
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _breaches(module: str, source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            found += _of_call(module, node)
        elif isinstance(node, ast.ImportFrom) and node.module in _UNPICKLERS and module not in UNPICKLES:
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name.startswith(("load", "Unp"))]
        elif isinstance(node, ast.arg) and node.arg == "trust_remote_code":
            found.append("trust_remote_code as an argument")
    return found


def _of_call(module: str, call: ast.Call) -> list[str]:
    name = _name(call.func)
    owner, _, last = name.rpartition(".")
    found = []
    if owner.split(".")[0] in _UNPICKLERS and last in ("load", "loads", "open", "Unpickler", "unsafe_load"):
        found += [name] if module not in UNPICKLES else []
    if name in _RUN or name in _SHELLS or name.startswith(("os.exec", "os.spawn")):
        found.append(name)
    for keyword in call.keywords:
        on = not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
        if keyword.arg in ("shell", "allow_pickle", "trust_remote_code") and on:
            found.append(f"{name}({keyword.arg}=...)")
    return found


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_module_runs_what_comes_from_outside(module: str):
    assert not _breaches(module, MODULES[module].read_text(encoding="utf-8"))


def test_what_unpickles_is_still_there():
    assert all("pickle.loads" in MODULES[module].read_text(encoding="utf-8") for module in UNPICKLES)


@pytest.mark.parametrize(
    "line",
    [
        "pickle.load(file)",
        "pickle.Unpickler(file)",
        "from pickle import loads",
        "torch.load(path)",
        "yaml.load(text)",
        "eval(text)",
        "exec(text)",
        "os.system('ls')",
        "os.execvp('ls', [])",
        "subprocess.run('ls', shell=True)",
        "numpy.load(path, allow_pickle=True)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
        "AutoModel.from_pretrained(path, trust_remote_code=options.trust)",
        "def load(path, trust_remote_code=True): ...",
    ],
)
def test_a_line_that_would_is_found(line: str):
    assert _breaches("pipeline.step", line)


@pytest.mark.parametrize(
    "line",
    ["json.loads(text)", "numpy.load(path)", "f(shell=False)", "re.compile(text)", "g(trust_remote_code=False)"],
)
def test_a_line_that_would_not_is_not(line: str):
    assert not _breaches("pipeline.step", line)
