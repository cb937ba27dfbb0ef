"""Rules for the package's source code: layers of imports, sizes, names and manners."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from lightning_privates import private_uses
from source_code import (
    FILES,
    ROOT,
    calls_in_asserts,
    clauses,
    code_lines,
    cycle,
    functions,
    imported,
    imported_files,
    is_packed,
    mutations,
    nodes,
    text,
    tree,
    unsafe_calls,
)

FLOORS = (
    (
        "errors",
        "version",
        "paths",
        "atomic",
        "escaping",
        "json_files",
        "ranks",
        "signals",
        "config",
    ),
    ("data", "metrics", "models"),
    ("generation", "analysis", "report"),
    ("inspection", "training"),
    ("build",),
    ("runs",),
    ("comparison", "tuning", "benchmark", "chat", "export", "serving", "start"),
    ("recipes", "paper"),
    ("cli",),
)
"""Packages and modules directly under ``dialog``, lowest floor first; those of the lowest floor
count as one.
"""
DOORS = ("__init__.py", "__main__.py")
INSIDE = [file for file in FILES if file not in DOORS]
CONTRACTS_OF_CORPORA = {"__init__", "corpus"}
MOST_CODE_LINES = 400
MOST_ENTRIES = 14
EXTENSIBLE = {".", "cli", "data/corpora", "inspection/sections"}
"""Folders of families that users extend, and the package itself, may have more entries."""
VAGUE_FILES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
LIGHTNING = {"lightning", "pytorch_lightning"}
LIGHTNING_INTERNALS = "training/lightning_internals.py"
HEAVY = {
    "torch",
    "torchmetrics",
    "numpy",
    "tokenizers",
    "wandb",
    "safetensors",
    "jinja2",
    "PIL",
    *LIGHTNING,
}
LAZY = {"runs/evaluator.py", "runs/evaluation/metrics.py"}
"""Imported inside functions, never at start-up."""
REPOSITORY = Path(__file__).parents[1]
HARMLESS_CALLS = {
    "all",
    "any",
    "callable",
    "hasattr",
    "isinstance",
    "issubclass",
    "len",
    "set",
    "type",
}
MOST_TEST_LINES = 550
MOST_CHARACTERS = 60
UNSAFE = (
    "weights_only=False",
    "yaml.load(",
    "UnsafeLoader",
    "FullLoader",
    "shell=True",
    "trust_remote_code",
)
UNSAFE_PACKAGES = {"pickle", "dill", "marshal", "shelve", "joblib"}


def package(name: str) -> str:
    return name.partition(".")[0]


def part(file: str) -> str:
    """The package or module directly under ``dialog``; those of the lowest floor are one part."""
    name = Path(file).parts[0].removesuffix(".py")
    return "foundation" if name in FLOORS[0] else name


def floor(file: str) -> int:
    name = Path(file).parts[0].removesuffix(".py")
    heights = [height for height, parts in enumerate(FLOORS) if name in parts]
    assert heights, f"{file} is on no floor"
    return heights[0]


def entry_of(file: str, folder: str) -> str | None:
    """The entry of a folder that a file is, or is below; None outside, and for ``__init__.py``."""
    path = Path(file)
    if not path.is_relative_to(folder) or path == Path(folder, "__init__.py"):
        return None
    return path.relative_to(folder).parts[0]


# ------------------------------------------------------------------ layers


def test_imports_run_downwards() -> None:
    upward = [
        f"{file} imports {other}"
        for file in INSIDE
        for other in imported_files(file)
        if other in DOORS or (floor(other) >= floor(file) and part(other) != part(file))
    ]
    assert not upward


def test_no_import_cycle() -> None:
    assert cycle({file: imported_files(file) for file in INSIDE}) is None


@pytest.mark.parametrize("folder", sorted({str(Path(file).parent) for file in INSIDE} - {"."}))
def test_entries_of_a_folder_have_no_import_cycle(folder: str) -> None:
    """A file, or all files below a subfolder, count as one entry."""
    entries: dict[str, set[str]] = {}
    for file in INSIDE:
        if (entry := entry_of(file, folder)) is not None:
            others = {entry_of(other, folder) for other in imported_files(file)}
            entries.setdefault(entry, set()).update(others - {None, entry})
    assert cycle(entries) is None


def test_importing_dialog_imports_no_module_of_it() -> None:
    top = [
        node for node in tree("__init__.py").body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not [name for node in top for name in imported(node) if package(name) == "dialog"]


def test_lightning_only_in_training_and_the_data_module() -> None:
    users = {file for file in INSIDE for name in imported(tree(file)) if package(name) in LIGHTNING}
    assert {file for file in users if part(file) != "training"} == {"data/datamodule.py"}


def test_private_lightning_names_are_in_one_file() -> None:
    uses = {file: list(private_uses(tree(file))) for file in FILES}
    assert len(uses.pop(LIGHTNING_INTERNALS)) > 10
    assert {file: names for file, names in uses.items() if names} == {}


def test_models_import_torch_and_components_only() -> None:
    models = [file for file in INSIDE if part(file) == "models"]
    packages = {package(name) for file in models for name in imported(tree(file))}
    assert packages - set(sys.stdlib_module_names) == {"torch", "dialog"}
    others = {other for file in models for other in imported_files(file) if part(other) != "models"}
    assert others <= {"config/components.py", "errors.py"}


def test_corpora_do_not_import_each_other() -> None:
    corpora = Path("data/corpora")
    leaves = [
        file
        for file in INSIDE
        if Path(file).parent == corpora and Path(file).stem not in CONTRACTS_OF_CORPORA
    ]
    assert len(leaves) >= 14
    assert not [
        f"{file} imports {other}" for file in leaves for other in imported_files(file) & set(leaves)
    ]


def test_start_up_is_light() -> None:
    light = [
        *DOORS,
        *(file for file in INSIDE if part(file) in ("foundation", "runs", "build", "cli")),
    ]
    heavy = [
        f"{file}:{node.lineno}"
        for file in light
        if file not in LAZY
        for node in tree(file).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and {package(name) for name in imported(node)} & HEAVY
    ]
    assert not heavy


# ------------------------------------------------------------------ sizes and names


def test_files_are_small() -> None:
    # a file has at least as many lines as code lines, which are slow to count
    long = [file for file in FILES if text(file).count("\n") > MOST_CODE_LINES]
    sizes = {file: code_lines(text(file)) for file in long}
    assert {file: lines for file, lines in sizes.items() if lines > MOST_CODE_LINES} == {}


def test_folders_are_small() -> None:
    entries = Counter(
        path.parent.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*")
        if path.suffix == ".py" or path.is_dir()
        if "__pycache__" not in path.parts
    )
    assert {folder for folder, count in entries.items() if count > MOST_ENTRIES} <= EXTENSIBLE


def test_file_names_say_what_is_inside() -> None:
    names = {
        file: {name.removesuffix(".py").strip("_") for name in Path(file).parts} for file in FILES
    }
    assert not [file for file in FILES if names[file] & VAGUE_FILES]


def test_packages_name_the_file_to_read_first() -> None:
    doors = [file for file in INSIDE if file.endswith("__init__.py")]
    silent = [
        file
        for file in doors
        if not re.search(r"`[\w/]+\.py`", ast.get_docstring(tree(file)) or "")
    ]
    assert not silent


def test_class_names_are_unique() -> None:
    classes = Counter(
        node.name for file in FILES for node in nodes(tree(file)) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_test_names_are_short_and_test_files_small() -> None:
    tests = {
        path: path.read_text(encoding="utf-8")
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
    }
    assert not [path.name for path, text in tests.items() if text.count("\n") > MOST_TEST_LINES]
    names = [name for text in tests.values() for name in re.findall(r"def (test_\w+)", text)]
    assert not [name for name in names if len(name) > MOST_CHARACTERS]


# ------------------------------------------------------------------ manners


def test_one_assignment_a_line() -> None:
    packed = [
        f"{file}:{node.lineno}"
        for file in FILES
        for node in nodes(tree(file))
        if isinstance(node, ast.Assign) and is_packed(node)
    ]
    assert not packed


def test_comprehensions_have_at_most_two_clauses() -> None:
    long = [
        f"{file}:{node.lineno}" for file in FILES for node in nodes(tree(file)) if clauses(node) > 2
    ]
    assert not long


def test_asserts_do_no_work() -> None:
    working = [
        f"{file}:{line}" for file in FILES for line in calls_in_asserts(tree(file), HARMLESS_CALLS)
    ]
    assert not working


def test_forward_takes_no_unnamed_arguments() -> None:
    forwards = [
        (file, function)
        for file in FILES
        for function in functions(tree(file))
        # not an autograd Function's
        if function.name == "forward" and function.args.args[0].arg == "self"
    ]
    assert len(forwards) > 5
    assert not [
        f"{file}:{forward.lineno}"
        for file, forward in forwards
        if forward.args.kwarg or forward.args.vararg
    ]


def test_no_keyword_argument_is_swallowed() -> None:
    swallowed = [
        f"{file}:{function.lineno} **{function.args.kwarg.arg}"
        for file in FILES
        for function in functions(tree(file))
        if function.args.kwarg
        and function.name != "log_hyperparams"  # Lightning's signature
        and function.args.kwarg.arg
        not in {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    ]
    assert not swallowed


def test_modules_have_no_mutable_state() -> None:
    assert not [f"{file}:{line}" for file in FILES for line in mutations(tree(file))]


def test_nothing_registers_itself() -> None:
    registering = [
        f"{file}:{node.lineno}"
        for file in FILES
        for node in nodes(tree(file))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (
            node.name == "__init_subclass__"
            # Lightning's name
            or (node.name.startswith("register") and node.name != "register_signal_handlers")
            or any("register" in ast.unparse(decorator) for decorator in node.decorator_list)
        )
    ]
    assert not registering


def test_no_code_from_files_is_run() -> None:
    unsafe = []
    for file in FILES:
        unsafe += [f"{file}: {phrase}" for phrase in UNSAFE if phrase in text(file)]
        unsafe += [
            f"{file}: {name}" for name in imported(tree(file)) if package(name) in UNSAFE_PACKAGES
        ]
        unsafe += [f"{file}:{line}" for line in unsafe_calls(tree(file))]
    assert not unsafe


# ------------------------------------------------------------------ the readers of source code


def test_all_imports_are_read() -> None:
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
def test_private_lightning_names_are_detected(text: str) -> None:
    assert list(private_uses(ast.parse(text)))


def test_other_private_names_are_allowed() -> None:
    text = (
        "class C(Callback):\n    def _run(self):\n        self._run()\n       "
        " torch._foreach_mul_()\n"
    )
    assert not list(private_uses(ast.parse(text)))


def test_imported_names_are_resolved_to_files() -> None:
    assert "data/corpora/__init__.py" in imported_files("build.py")
    assert "training/trainer.py" in imported_files("build.py")
    assert "runs/check.py" in imported_files("comparison/grid/plan.py")
    assert "config/compose.py" in imported_files("cli/train.py")


def test_cycles_are_detected() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_code_lines_are_counted() -> None:
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
def test_mutable_state_is_detected(text: str) -> None:
    assert set(mutations(ast.parse(text)))


def test_clauses_of_comprehensions_are_counted() -> None:
    text = "[x for x in y if x if x > 1]\n{x: 1 for x in y}\nf(z for x in y for z in x if z)\n"
    assert sorted(filter(None, map(clauses, ast.walk(ast.parse(text))))) == [1, 3, 3]


@pytest.mark.parametrize(
    ("text", "packed"),
    [("a, b = c, d", True), ("a[0], a[1] = a[1], a[0]", False), ("a, b = f()", False)],
)
def test_packed_assignments_are_detected(text: str, packed: bool) -> None:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.Assign)
    assert is_packed(node) is packed


def test_constants_and_locals_are_no_mutable_state() -> None:
    text = (
        "X = {1: 2}\ndef f(y):\n    x = dict(X)\n    x[3] = 4\n    y.append(X[1])\n    return x\n"
    )
    assert not set(mutations(ast.parse(text)))


def test_unsafe_calls_are_detected() -> None:
    text = (
        "torch.load(p)\ntorch.load(p,"
        " weights_only=True)\nmodel.eval()\neval(p)\nre.compile(p)\nos.system(p)\n"
    )
    assert list(unsafe_calls(ast.parse(text))) == [1, 4, 6]


def test_the_package_was_read() -> None:
    assert len(FILES) > 50
    assert len({part(file) for file in INSIDE}) > 10
