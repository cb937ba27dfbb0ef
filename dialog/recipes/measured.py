"""Measured results of the shipped recipes: ``recipes/<corpus>/results/<table>.json``, written by the queue of results.

    format, name, stage, purpose, columns       the table, as benchmarks/results/queue.yaml describes it
    command, commit, date, environment          how, where and when it was recorded
    recipes: [{name, recipe, overrides, hash, parameters, trials,
               runs: [{seed, commits, date, data, fingerprint, steps, seconds, ..., metrics, curve}]}]
    references                                  metrics of trivial systems, by subset and system
    verdict, differences                        of the comparison, if it has at least two recipes

``hash`` identifies the composed recipe, ``data`` the prepared data. A run is current if the recipe composes to the same
hash and, in a checkout, the code that trains and evaluates has not changed since the commits at which the run was
started and resumed, or is known to give the same results:

    recipes/reproduced.json                     written by the queue's --reproduce
    entries: [{recipe, overrides, hash, commit, at, date, hardware, torch}]     at: the code that reproduces `commit`
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from dialog.comparison.grid.folder import contender_hash
from dialog.config.assets import shipped_folder
from dialog.config.compose import Composed, compose
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.report.formats.metrics import metric_display
from dialog.report.tables import spread_text

RESULTS = "results"
PRIMARY = "bits_per_byte"
"""The metric of a recipe that expects none."""
STALE = "†"
"""Mark of a result that is not current."""
REPRODUCED = "reproduced.json"
DIRTY = "-dirty"
WITHOUT_EFFECT = (
    "chat",
    "cli",
    "comparison/breakdown.py",
    "comparison/grid/progress.py",
    "comparison/parity.py",
    "export",
    "generation/chosen_search.py",
    "generation/required_words.py",
    "generation/word_finder.py",
    "inspection",
    "paths.py",
    "profiling",
    "recipes",
    "report",
    "serving",
    "training/optimization/allocator.py",
    "training/optimization/matmul_speed.py",
    "tuning",
)
"""Parts of the package that change no recorded result: they show results, serve other commands, save time and memory,
name folders, find banned and required words, which no recorded recipe has, change the search of a chat, or choose
values that the recipe of a run lists."""
CHECK = "check_"
"""Begins the name of a function that only raises an error."""


class MeasuredFigure(NamedTuple):
    """A metric of a recipe over the runs of one table; `stale` is empty, or the reason why it is not current."""

    metric: str
    mean: float
    deviation: float | None
    seeds: list[int]
    commit: str
    date: str
    table: str
    stale: str

    def text(self) -> str:
        """Return name, mean and standard deviation."""
        return f"{self.metric} {self.spread()}"

    def spread(self) -> str:
        """Return mean and standard deviation."""
        return spread_text(self.mean, self.deviation, metric_display(self.metric).format)


def summary(figures: Sequence[MeasuredFigure]) -> str:
    """Return figures for a list, with the number of seeds; `STALE` marks those that are not current."""
    groups: dict[tuple[str, int, bool], list[str]] = {}
    for figure in figures:
        groups.setdefault((figure.table, len(figure.seeds), bool(figure.stale)), []).append(figure.text())
    return "; ".join(
        f"{', '.join(texts)} ({seeds} seed{'s' * (seeds > 1)}){f' {STALE}' * stale}"
        for (_, seeds, stale), texts in groups.items()
    )


def measured_figures(composed: Composed) -> dict[tuple[str, ...], list[MeasuredFigure]]:
    """Return the measured figures of a shipped recipe by the overrides of the runs, for the metrics that it expects.

    Runs without overrides come first. Of figures with the same overrides, the current ones are preferred, then those
    with most seeds.
    """
    metrics = list(dict.fromkeys(str(item["metric"]) for item in composed.recipe.expect)) or [PRIMARY]
    by_overrides: dict[tuple[str, ...], list[MeasuredFigure]] = {(): []}
    for path in record_files():
        record = read_json(path, "name", "recipes")
        for row in record["recipes"]:
            if row["recipe"] == composed.name:
                figures = by_overrides.setdefault(tuple(row["overrides"]), [])
                now = present_hash(row)
                for metric in metrics:
                    figures += figure_in(row, metric, now=now, table=record["name"])
    return {overrides: preferred(figures) for overrides, figures in by_overrides.items()}


def preferred(figures: Sequence[MeasuredFigure]) -> list[MeasuredFigure]:
    """Return the current figures, or all if none is; of these, those with most seeds, once if tables share the runs."""
    distinct: dict[tuple[object, ...], MeasuredFigure] = {}
    for figure in [figure for figure in figures if not figure.stale] or figures:
        distinct.setdefault((figure.metric, figure.commit, *figure.seeds), figure)
    most = max((len(figure.seeds) for figure in distinct.values()), default=0)
    return [figure for figure in distinct.values() if len(figure.seeds) == most]


def present_hash(row: Mapping[str, Any]) -> str:
    """Return the hash that the recipe of a row has now, or an empty text if it no longer composes."""
    try:
        return contender_hash(compose(row["recipe"], row["overrides"]).recipe)
    except UserError:
        return ""


def figure_in(row: Mapping[str, Any], metric: str, *, now: str, table: str) -> list[MeasuredFigure]:
    """Return a metric over the current runs of a table's row, over all if none is current, or nothing without a run."""
    runs = [run for run in row["runs"] if metric_at(run["metrics"], metric) is not None]
    reasons = {run["seed"]: staleness(row, run, now) for run in runs}
    current = [run for run in runs if not reasons[run["seed"]]]
    stale = "" if current else "; ".join(dict.fromkeys(reasons.values()))
    return [figure_of(current or runs, metric, table, stale)] if runs else []


def figure_of(runs: Sequence[Mapping[str, Any]], metric: str, table: str, stale: str) -> MeasuredFigure:
    """Return mean and sample standard deviation of a metric over runs, with their seeds, commits and last date."""
    values = [float(metric_at(run["metrics"], metric) or 0.0) for run in runs]
    deviation = stdev(values) if len(values) > 1 else None
    seeds, commits = (
        [run["seed"] for run in runs],
        ", ".join(dict.fromkeys(commit for run in runs for commit in run["commits"])),
    )
    return MeasuredFigure(
        metric, fmean(values), deviation, seeds, commits, max(run["date"] for run in runs), table, stale
    )


def staleness(row: Mapping[str, Any], run: Mapping[str, Any], now: str) -> str:
    """Return the reason why a run is not a result of the present recipe and package, or an empty text."""
    if row["hash"] != now:
        return "the recipe has changed since"
    return next(filter(None, (outdated(commit, now) for commit in run["commits"])), "")


def outdated(commit: str, recipe: str) -> str:
    """Return the reason why a recipe's results of a commit are not those of the present code, or an empty text.

    Args:
        commit: Of the code that trained and evaluated.
        recipe: Hash of the recipe.
    """
    if all(changed_since(one) for one in reproducing(commit, recipe)):
        return changed_since(commit)
    return ""


def reproducing(commit: str, recipe: str) -> list[str]:
    """Return a commit and those whose code gives its results of a recipe, each after one that it was compared with."""
    later = reproductions(shipped_folder("recipes") / REPRODUCED)
    commits = [commit]
    for one in commits:  # grows
        commits += [other for other in later.get((recipe, one), []) if other not in commits]
    return commits


@cache
def reproductions(path: Path) -> dict[tuple[str, str], list[str]]:
    """Return, by hash of a recipe and commit, the commits that reproduce its results."""
    later: dict[tuple[str, str], list[str]] = {}
    for entry in read_json(path, "entries")["entries"] if path.is_file() else []:
        later.setdefault((entry["hash"], entry["commit"]), []).append(entry["at"])
    return later


@cache
def changed_since(commit: str) -> str:
    """Return the reason why results of a commit are not of the present code, or an empty text.

    In a checkout, the package must be unchanged outside of `WITHOUT_EFFECT`, except for comments and what `program`
    leaves out. An installed package is that of its recorded results.
    """
    package = Path(str(files("dialog")))
    if commit.endswith(DIRTY):
        return f"measured at {commit.removesuffix(DIRTY)} with uncommitted changes"
    if not (package.parent / ".git").exists():
        return ""
    others = [f":(exclude){package.name}/{folder}" for folder in WITHOUT_EFFECT]
    try:
        names = git(package.parent, "diff", "--name-only", "-z", commit, "--", package.name, *others).split("\0")
        same = all(is_same_program(package.parent / name, commit) for name in names if name)
    except (OSError, subprocess.SubprocessError, SyntaxError, ValueError):
        same = False
    return "" if same else f"measured at {commit}, the code has changed since"


def is_same_program(path: Path, commit: str) -> bool:
    """Return whether a file of a checkout is the same `program` as its version in a commit.

    Raises:
        OSError: the file is missing now.
        SubprocessError: the commit lacks the file.
        SyntaxError: a version of the file is not Python of this interpreter.
        ValueError: a version of the file is not text.
    """
    before = git(path.parent, "show", f"{commit}:./{path.name}")
    return path.suffix == ".py" and program(before) == program(path.read_text(encoding="utf-8"))


def program(source: str) -> str:
    """Return the syntax tree of a Python source as text, without what changes no result of a run that finishes.

    It leaves out docstrings, calls of ``log``, arguments of exceptions, conditions that only raise a `UserError`, and
    functions named ``check_...`` that return nothing, with their calls, and then the imports that nothing uses. A new
    check whose error is caught could change a result; this is missed.
    """
    tree = _Effects().visit(ast.parse(source))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return ast.dump(_Imports(used).visit(tree))


class _Effects(ast.NodeTransformer):
    """Removes the parts of a syntax tree that `program` leaves out."""

    def visit_Module(self, node: ast.Module) -> ast.AST:
        node.body = [part for part in node.body if not (isinstance(part, ast.FunctionDef) and is_check(part))]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        value = node.value
        is_docstring = isinstance(value, ast.Constant) and isinstance(value.value, str)
        is_left_out = isinstance(value, ast.Call) and ast.unparse(value.func).startswith(("log.", CHECK))
        return None if is_docstring or is_left_out else node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return ast.Raise(node.exc.func, None) if isinstance(node.exc, ast.Call) else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        assigns = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
        self.generic_visit(node)
        only_raises = all(ast.unparse(part) == "raise UserError" for part in node.body)
        return None if only_raises and not node.orelse and not assigns else node


class _Imports(ast.NodeTransformer):
    """Removes imported names that are not among the names and texts of a syntax tree."""

    def __init__(self, used: set[str]) -> None:
        self.used = used

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        node.names = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in self.used]
        return node if node.names else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        node.names = [alias for alias in node.names if (alias.asname or alias.name) in self.used]
        return node if node.names else None


def is_check(function: ast.FunctionDef) -> bool:
    """Return whether a function only raises an error, by its name and since it returns nothing."""
    returned = function.returns
    return function.name.startswith(CHECK) and isinstance(returned, ast.Constant) and returned.value is None


def git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command in a folder.

    Raises:
        SubprocessError: the command fails or takes longer than 10 s.
    """
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, timeout=10, check=True, encoding="utf-8").stdout


def record_files() -> list[Path]:
    """Return the recorded tables."""
    return sorted(shipped_folder("recipes").glob(f"**/{RESULTS}/*.json"))


def metric_at(metrics: Mapping[str, Any], name: str) -> float | None:
    """Return a metric by its dotted name, such as ``parlai_sets.S1``; None if it was not measured.

    Of a metric with a signature, such as sacrebleu, the score is returned.
    """
    value: object = metrics
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        value = value.get("score")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
