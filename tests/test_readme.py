"""What the README tells a reader to write and to run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dialog.cli import program
from dialog.data.reading.download_sources import DOWNLOADS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def my_lab(tmp_path: Path) -> Path:
    """A folder with the README's attention in it."""
    (block,) = (each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "class Cosine" in each)
    (tmp_path / "my_lab.py").write_text(block, encoding="utf-8")
    return tmp_path


def test_an_attention_of_ones_own_trains_and_shows_its_maps(my_lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (setting,) = re.findall(r"train quickstart/lstm_bahdanau '(model\.decoder\.attention=.*?)'", README)
    monkeypatch.syspath_prepend(my_lab)
    small = [
        "data.corpus.size=40",
        "trainer.max_steps=3",
        "trainer.val_check_interval=3",
        "trainer.log_every_n_steps=1",
    ]
    run = my_lab / "run"
    program.main(["train", "quickstart/lstm_bahdanau", setting, *small, "--output", str(run)], standalone_mode=False)
    maps = json.loads(next((run / "attention" / "step-3").glob("*.json")).read_text(encoding="utf-8"))
    assert [each["name"] for each in maps["maps"]] == ["decoder.attention"]


def test_an_attention_of_ones_own_is_held_to_the_laws(my_lab: Path) -> None:
    (line,) = re.findall(r"^PYTHONPATH=\. python -m (pytest tests/laws --attention) '(.*?)'$", README, re.MULTILINE)
    command = [sys.executable, "-m", *line[0].split(), line[1], "-q", "-k", "folding or padding or distributions"]
    environment = {**os.environ, "PYTHONPATH": f"{my_lab}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE)

    (my_lab / "my_lab.py").write_text(  # one that looks at what comes later is found
        "class Cosine:\n"
        "    def __init__(self, query_size, key_size, size): pass\n"
        "    def keys(self, states): return states\n"
        "    def __call__(self, query, keys): return (query.sum(1, keepdim=True) + query) @ keys.transpose(1, 2)\n",
        encoding="utf-8",
    )
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1


def test_the_corpora_come_from_where_the_table_says() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", README.split("| corpus |")[1].split("\n\n")[0], re.MULTILINE
    )
    assert rows == [
        (corpus, source.licence, source.page if source.automatic else f"by hand: {source.page}")
        for corpus, source in DOWNLOADS.items()
    ]
