"""README and docs/: commands parse, recipes compose, Python blocks run, links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from dialog.cli import VERBS, program
from dialog.comparison.grid.contenders import of_recipe, vary
from dialog.comparison.grid.folder import Grid
from dialog.config.compose import compose, shipped_recipes
from dialog.data.reading.download_sources import DOWNLOADS

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for pattern in ("*.md", "docs/*.md", "recipes/**/*.md")
    for path in sorted(ROOT.glob(pattern))
}
COMMAND = re.compile(r"(?:python -m dialog|dialog-seq2seq) ([^\n`#|]+)")
COMMANDS = sorted(
    {
        (page, match[1].strip())
        for page, text in PAGES.items()
        for match in COMMAND.finditer(text.replace("\\\n", " "))
    }
)
EXTENDING = PAGES["docs/extending.md"]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.DOTALL)


# ------------------------------------------------------------------ all pages


def test_the_first_pages_are_short() -> None:
    assert PAGES["README.md"].count("\n") <= 102  # two are markers
    results = re.sub(r"<!-- results.*?<!-- end", "", PAGES["docs/results.md"], flags=re.DOTALL)
    assert len(results.split()) <= 1250  # two pages without figures and table
    pages = {page: text for page, text in PAGES.items() if page.startswith("recipes/")}
    long = {page for page, text in pages.items() if text.count("\n") > 150}
    assert {page.rpartition("/")[2] for page in long} <= {"appendix.md"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", PAGES[page]):
        path = (ROOT / page).parent.joinpath(target).resolve() if target else ROOT / page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), (
            f"{target}#{anchor}"
        )


def anchors(page: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_commands_parse_and_recipes_compose(page: str, line: str) -> None:
    words = shlex.split(line.replace("...", ""))
    if not words:  # `python -m dialog ...`: any verb
        return
    assert words[0] in VERBS
    command = program.get_command(click.Context(program), words[0])
    assert command is not None
    context = command.make_context(
        words[0], [word.replace("$SLURM_ARRAY_TASK_ID", "1") for word in words[1:]]
    )
    variations = context.params.pop("vary", ())
    positional = [
        str(word) for value in context.params.values() if isinstance(value, tuple) for word in value
    ] + [value for value in context.params.values() if isinstance(value, str)]
    varied = context.params.get("vary", ())  # the first value of each
    overrides = [
        word.partition(",")[0] if word in varied else word for word in positional if "=" in word
    ]
    for name in set(positional) & set(shipped_recipes()):
        vary(name, overrides, variations)


def test_the_corpora_are_those_that_can_be_downloaded() -> None:
    table = PAGES["docs/corpora.md"].split("| corpus |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    assert rows == [
        (corpus, source.licence, source.page if source.automatic else f"by hand: {source.page}")
        for corpus, source in DOWNLOADS.items()
    ]


# ------------------------------------------------------------------ Python


def test_the_run_folder_of_the_readme_is_that_of_the_quickstart() -> None:
    (folder,) = re.findall(r"`RUN` is .*`(comparisons/TIME/.*?)`", PAGES["README.md"])
    contender = of_recipe(compose("quickstart/transformer"))
    assert [
        str(cell.folder) for cell in Grid(Path("comparisons/TIME"), (contender,), (1,)).cells()
    ] == [folder]


def test_the_python_of_the_readme_runs(trained: Callable[[str], Path]) -> None:
    (block,) = blocks("README.md", "python")
    lines = block.replace("RUN", str(trained("transformer")))
    variables: dict[str, object] = {}
    exec(lines, variables)
    assert variables["reply"].text == variables["reply"].candidates[0].text
    assert variables["module"].model is variables["model"]


@pytest.mark.filterwarnings("ignore")  # Lightning advises more workers
def test_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    variables: dict[str, Any] = {}
    for block in blocks("docs/python.md", "python"):
        alone: dict[str, Any] = {}
        exec(block, alone)
        variables |= alone
    assert variables["metrics"]["test/loss"] < 0.1
    assert variables["responses"] == ["Fine .", "Not much .", "Not now ."]
    assert variables["validation"]["validation/loss"] < 7.0


def test_the_recipe_of_one_s_own_composes(tmp_path: Path) -> None:
    (block,) = blocks("docs/recipes.md", "yaml")
    (tmp_path / "my.yaml").write_text(block, encoding="utf-8")
    recipe = compose(str(tmp_path / "my.yaml"), ["data.path=."]).recipe
    assert (recipe.data.corpus["name"], recipe.model.decoder["layers"]) == ("jsonl", 2)


# ------------------------------------------------------------------ an attention of one's own


@pytest.fixture
def my_lab(tmp_path: Path) -> Path:
    """A folder with the attention of docs/extending.md in it."""
    (block,) = blocks("docs/extending.md", "python")
    (tmp_path / "my_lab.py").write_text(block, encoding="utf-8")
    return tmp_path


def test_a_users_attention_trains_and_shows_its_maps(
    my_lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (setting,) = re.findall(
        r"train quickstart/lstm_bahdanau '(model\.decoder\.attention=.*?)'", EXTENDING
    )
    monkeypatch.syspath_prepend(my_lab)
    small = [
        "data.corpus.size=40",
        "trainer.max_steps=3",
        "trainer.val_check_interval=3",
        "trainer.log_every_n_steps=1",
    ]
    run = my_lab / "run"
    program.main(
        ["train", "quickstart/lstm_bahdanau", setting, *small, "--output", str(run)],
        standalone_mode=False,
    )
    maps = json.loads(
        next((run / "attention" / "step-3").glob("*.json")).read_text(encoding="utf-8")
    )
    assert [attention["name"] for attention in maps["maps"]] == ["decoder.attention"]


def laws_of_my_lab(my_lab: Path, chosen: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the page with a choice of its tests."""
    pattern = r"^PYTHONPATH=\. python -m (pytest tests/laws -k my_lab --attention) '(.*?)'$"
    (line,) = re.findall(pattern, EXTENDING, re.MULTILINE)
    command = [sys.executable, "-m", *line[0].split(), line[1], "-q", "-k", chosen]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{my_lab}{os.pathsep}{ROOT}",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_a_users_attention_is_held_to_the_laws(my_lab: Path) -> None:
    laws = "(split_of_a_target or padding or distributions)"
    finished = laws_of_my_lab(my_lab, f"my_lab and {laws} and not gru and not transformer")
    assert finished.returncode == 0, finished.stdout[-2000:]
    assert re.search(r"^\d+ passed", finished.stdout, re.MULTILINE)


@pytest.mark.endurance
def test_an_attention_that_reads_later_tokens_fails(my_lab: Path) -> None:
    (my_lab / "my_lab.py").write_text(
        "class Cosine:\n    def __init__(self, query_size, key_size, size): pass\n    def"
        " keys(self, states): return states\n    def __call__(self, query, keys): return"
        " (query.sum(1, keepdim=True) + query) @ keys.transpose(1, 2)\n",
        encoding="utf-8",
    )
    assert laws_of_my_lab(my_lab, "my_lab and split_of_a_target").returncode == 1
