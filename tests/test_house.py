"""The plan of the house, held against what the files import and hold."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

import dialog

ROOT = Path(dialog.__file__).parent
FLOORS = (
    ("errors", "version", "paths", "atomic", "escaping", "ranks", "config"),
    ("data", "metrics", "models"),
    ("generation", "analysis", "report"),
    ("inspection", "training"),
    ("build",),
    ("runs",),
    ("comparison", "tuning", "profiling", "chat", "export"),
    ("cli",),
)
"""Rooms from the lowest floor up; the files of the lowest are one room."""
DOORS = ("__init__.py", "__main__.py")
SHARED_BY_CORPORA = ("contract", "readable")
CODE_LINES = 250
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
INSIDE = [file for file in FILES if file not in DOORS]
LIGHTNING = {"lightning", "pytorch_lightning"}
INTERNALS = "training/lightning_internals.py"
HEAVY = {"torch", "numpy", "tokenizers", "wandb", "safetensors", "jinja2", "PIL", *LIGHTNING}
LAZY = {"runs/environment.py", "runs/evaluator.py"}
"""Imported inside functions, never at start-up."""
UNSAFE = ("weights_only=False", "yaml.load(", "UnsafeLoader", "FullLoader", "shell=True", "trust_remote_code")
UNSAFE_PACKAGES = {"pickle", "dill", "marshal", "shelve", "joblib"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "os.system"}
FILLS = {"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
CONTAINERS = {"list", "dict", "set", "defaultdict", "Counter", "deque"}


# ------------------------------------------------------------------ reading


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"), file)


def module_name(file: str) -> str:
    """``data/store/store.py`` is ``dialog.data.store.store``, ``data/__init__.py`` is ``dialog.data``."""
    parts = ("dialog", *Path(file).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: ast.AST) -> Iterator[str]:
    """The full name of all that is imported anywhere: at the top, in functions, for type checkers only."""
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def arrows(file: str) -> set[str]:
    """The files of ours that a file imports."""
    modules = {module_name(each): each for each in FILES}
    found = set()
    for name in imported(tree(file)):
        if name.partition(".")[0] == "dialog":
            known = name if name in modules else name.rpartition(".")[0]
            assert known in modules, f"{file} imports {name}, which is no file"
            found.add(modules[known])
    return found - {file}


def package(name: str) -> str:
    return name.partition(".")[0]


def room(file: str) -> str:
    """The folder or file directly under ``dialog``; the files of the lowest floor are one room."""
    name = Path(file).parts[0].removesuffix(".py")
    return "foundation" if name in FLOORS[0] else name


def floor(file: str) -> int:
    name = Path(file).parts[0].removesuffix(".py")
    found = [height for height, rooms in enumerate(FLOORS) if name in rooms]
    assert found, f"{file} is in no room of the house"
    return found[0]


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    """A path that comes back to where it began, if there is one."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        found = next((found for each in sorted(graph[node]) if (found := visit(each, [*path, node]))), None)
        done.add(node)
        return found

    return next((found for node in sorted(graph) if (found := visit(node, []))), None)


def code_lines(text: str) -> int:
    """Lines that are neither blank nor comment nor docstring."""
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def functions(source: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(source) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def changes(module: ast.Module) -> Iterator[int]:
    """Lines that change a name of the module, or that make a container which can only be meant to be filled."""
    tops = set()
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        tops |= {target.id for target in targets if isinstance(target, ast.Name)}
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is not None and ast.unparse(value) in ("[]", "{}"):
            yield node.lineno
        if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in CONTAINERS and not value.args:
            yield node.lineno
    for function in functions(module):
        inside = list(ast.walk(function))
        stored = (node for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        own = {node.id for node in stored} | {node.arg for node in inside if isinstance(node, ast.arg)}
        for node in inside:
            target = changed(node)
            if isinstance(node, ast.Global) or (isinstance(target, ast.Name) and target.id in tops - own):
                yield node.lineno


def changed(node: ast.AST) -> ast.expr | None:
    """What a node changes in place."""
    if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FILLS:
        return node.func.value
    return None


def unsafe_calls(module: ast.Module) -> Iterator[int]:
    """Lines that run code, or load weights without saying that they are only weights."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            given = {each.arg: ast.unparse(each.value) for each in node.keywords}
            if called in UNSAFE_CALLS or (called == "torch.load" and given.get("weights_only") != "True"):
                yield node.lineno


# ------------------------------------------------------------------ Lightning's private names


class Privates(NamedTuple):
    """Private names in Lightning's own sources: those of each class, its bases' included, and all together."""

    classes: dict[str, set[str]]
    everywhere: set[str]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name.strip("_") != ""


def private_names(node: ast.AST) -> set[str]:
    """The private names that a module or class defines: functions, classes, variables and attributes of ``self``."""
    names = set()
    for inside in ast.walk(node):
        if isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(inside.name)
        elif isinstance(inside, ast.Attribute) and isinstance(inside.ctx, ast.Store):
            names.add(inside.attr)
    return set(filter(is_private, names))


def base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


@cache
def lightning_privates() -> Privates:
    spec = find_spec("lightning")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    paths = [path for part in ("pytorch", "fabric") for path in (root / part).rglob("*.py")]
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    nodes = {node.name: node for module in modules for node in ast.walk(module) if isinstance(node, ast.ClassDef)}

    def inherited(name: str, below: frozenset[str] = frozenset()) -> set[str]:
        if name not in nodes or name in below:
            return set()
        bases = (inherited(base, below | {name}) for base in base_names(nodes[name]))
        return private_names(nodes[name]).union(*bases)

    return Privates({name: inherited(name) for name in nodes}, set().union(*map(private_names, modules)))


def lightning_internals(module: ast.Module, lightning_classes: dict[str, set[str]]) -> Iterator[str]:
    """Uses of private Lightning names in a file: imports, attributes of other objects, and names of a base class."""
    for name in imported(module):
        if package(name) in LIGHTNING and any(map(is_private, name.split("."))):
            yield name
    own = private_names(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and ast.unparse(node.value) not in ("self", "cls"):
            if node.attr in lightning_privates().everywhere and node.attr not in own:
                yield ast.unparse(node)
        elif isinstance(node, ast.ClassDef):
            inherited = set().union(*(lightning_classes.get(base, set()) for base in base_names(node)))
            used = (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and is_private(each.attr))
            yield from (f"{node.name}.{name}" for name in sorted({*used, *private_names(node)} & inherited))


@cache
def lightning_classes() -> dict[str, set[str]]:
    """The private names that Lightning gives each class, ours that derive from Lightning's included."""
    classes = dict(lightning_privates().classes)
    ours = [node for file in FILES for node in ast.walk(tree(file)) if isinstance(node, ast.ClassDef)]
    for _ in range(3):  # bases before the classes that derive from them
        for node in ours:
            bases = [classes[base] for base in base_names(node) if base in classes]
            if bases:
                classes[node.name] = set().union(*bases)
    return classes


def test_private_lightning_names_are_in_one_file() -> None:
    uses = {file: list(lightning_internals(tree(file), lightning_classes())) for file in FILES}
    assert len(uses.pop(INTERNALS)) > 10
    assert {file: names for file, names in uses.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from lightning.pytorch.loops.fit_loop import _FitLoop\n",
        "def f(trainer):\n    return trainer._logger_connector.should_update_logs\n",
        "class M(LightningModule):\n    def f(self):\n        return self._trainer\n",
        "class L(EpochLoop):\n    def _should_check_val_fx(self, fetcher):\n        return True\n",
        "class S(Strategy):\n    def f(self):\n        self._launcher = None\n",
    ],
)
def test_the_reader_finds_private_lightning_names(text: str) -> None:
    assert list(lightning_internals(ast.parse(text), lightning_classes()))


def test_the_reader_lets_our_private_names_be() -> None:
    text = "class C(Callback):\n    def _run(self):\n        self._run()\n        torch._foreach_mul_()\n"
    assert not list(lightning_internals(ast.parse(text), lightning_classes()))


# ------------------------------------------------------------------ floors


def test_imports_run_from_higher_floors_to_lower_ones() -> None:
    against = [
        f"{file} imports {other}"
        for file in INSIDE
        for other in arrows(file)
        if other in DOORS or (floor(other) >= floor(file) and room(other) != room(file))
    ]
    assert not against


def test_no_circle_of_imports() -> None:
    assert circle({file: arrows(file) for file in INSIDE}) is None


def test_the_door_imports_nothing_until_it_is_opened() -> None:
    top = [node for node in tree("__init__.py").body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [name for node in top for name in imported(node) if package(name) == "dialog"]


def test_lightning_lives_in_training_and_the_data_module() -> None:
    users = {file for file in INSIDE for name in imported(tree(file)) if package(name) in LIGHTNING}
    assert {file for file in users if room(file) != "training"} == {"data/datamodule.py"}


def test_models_know_torch_and_components_only() -> None:
    models = [file for file in INSIDE if room(file) == "models"]
    packages = {package(name) for file in models for name in imported(tree(file))}
    assert packages - set(sys.stdlib_module_names) == {"torch", "dialog"}
    ours = {other for file in models for other in arrows(file)}
    assert {other for other in ours if room(other) != "models"} <= {"config/components.py", "errors.py"}


def test_corpora_do_not_know_each_other() -> None:
    shared = {"__init__", *SHARED_BY_CORPORA}
    leaves = [file for file in INSIDE if Path(file).parent == Path("data/corpora") and Path(file).stem not in shared]
    assert len(leaves) >= 3
    assert not [f"{file} imports {other}" for file in leaves for other in arrows(file) & set(leaves)]


def test_the_way_to_a_verb_is_light() -> None:
    light = [
        *DOORS,
        *(file for file in INSIDE if room(file) in ("foundation", "runs", "build", "cli") and file not in LAZY),
    ]
    against = [
        f"{file}:{node.lineno}"
        for file in light
        for node in tree(file).body
        if isinstance(node, ast.Import | ast.ImportFrom) and {package(name) for name in imported(node)} & HEAVY
    ]
    assert not against


# ------------------------------------------------------------------ size and names


def test_files_are_small() -> None:
    sizes = {file: code_lines((ROOT / file).read_text(encoding="utf-8")) for file in FILES}
    assert {file: lines for file, lines in sizes.items() if lines > CODE_LINES} == {}


def test_names_say_what_is_inside() -> None:
    assert not [file for file in FILES if {part.removesuffix(".py").strip("_") for part in Path(file).parts} & VAGUE]


# ------------------------------------------------------------------ manners


def test_no_forward_takes_what_it_does_not_name() -> None:
    forwards = [
        (file, each)
        for file in FILES
        for each in functions(tree(file))
        if each.name == "forward" and each.args.args[0].arg == "self"  # an autograd Function's has all tensors there
    ]
    assert len(forwards) > 5
    assert not [f"{file}:{each.lineno}" for file, each in forwards if each.args.kwarg or each.args.vararg]


def test_nothing_is_swallowed() -> None:
    against = [
        f"{file}:{each.lineno} **{each.args.kwarg.arg}"
        for file in FILES
        for each in functions(tree(file))
        if each.args.kwarg
        and each.name != "log_hyperparams"  # Lightning's own signature
        and each.args.kwarg.arg not in {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
    ]
    assert not against


def test_modules_have_no_state_that_changes() -> None:
    assert not [f"{file}:{line}" for file in FILES for line in changes(tree(file))]


def test_nothing_registers_itself() -> None:
    against = [
        f"{file}:{node.lineno}"
        for file in FILES
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (
            node.name == "__init_subclass__"
            or (node.name.startswith("register") and node.name != "register_signal_handlers")  # Lightning's own name
            or any("register" in ast.unparse(each) for each in node.decorator_list)
        )
    ]
    assert not against


def test_nothing_runs_code_that_it_reads() -> None:
    against = []
    for file in FILES:
        text = (ROOT / file).read_text(encoding="utf-8")
        against += [f"{file}: {each}" for each in UNSAFE if each in text]
        against += [f"{file}: {name}" for name in imported(tree(file)) if package(name) in UNSAFE_PACKAGES]
        against += [f"{file}:{line}" for line in unsafe_calls(tree(file))]
    assert not against


# ------------------------------------------------------------------ the readers themselves


def test_the_reader_finds_every_import() -> None:
    text = """
import a.b
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from c import d as e
class K:
    def f(self):
        try:
            from g import h
        except ImportError:
            import i as j
"""
    assert set(imported(ast.parse(text))) == {"a.b", "typing.TYPE_CHECKING", "c.d", "g.h", "i"}


def test_the_reader_finds_files_behind_names() -> None:
    assert "data/corpora/__init__.py" in arrows("build.py")
    assert "training/trainer.py" in arrows("build.py")
    assert "build.py" in arrows("comparison/compare.py")
    assert "config/compose.py" in arrows("cli/train.py")


def test_the_reader_finds_circles() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_the_reader_counts_code() -> None:
    top = '"""One\n\ntwo."""\n\n# note\nX = (\n    1,\n)\n"""about X"""\n'
    function = 'def f():\n    """Doc."""\n    return """a\nb"""\n'
    assert code_lines(top) == 3
    assert code_lines(top + "\n\n" + function) == 6


@pytest.mark.parametrize(
    "text",
    [
        "X = {}\n",
        "X: list[int] = []\n",
        "import collections\nX = collections.defaultdict(list)\nY = set()\n",
        "X = {1: 2}\ndef f():\n    X[3] = 4\n",
        "X = [1]\ndef f():\n    X.append(2)\n",
        "X = 1\ndef f():\n    global X\n    X = 2\n",
    ],
)
def test_the_reader_finds_state_that_changes(text: str) -> None:
    assert set(changes(ast.parse(text)))


def test_the_reader_lets_constants_and_locals_be() -> None:
    text = "X = {1: 2}\ndef f(y):\n    x = dict(X)\n    x[3] = 4\n    y.append(X[1])\n    return x\n"
    assert not set(changes(ast.parse(text)))


def test_the_reader_finds_unsafe_calls() -> None:
    text = "torch.load(p)\ntorch.load(p, weights_only=True)\nmodel.eval()\neval(p)\nre.compile(p)\nos.system(p)\n"
    assert list(unsafe_calls(ast.parse(text))) == [1, 4, 6]


def test_the_package_was_read() -> None:
    assert len(FILES) > 50
    assert len({room(file) for file in INSIDE}) > 10
