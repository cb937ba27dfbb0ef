"""The summary run of a comparison in Weights & Biases, read back from its offline files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wandb_file import Offline, read_offline

from dialog.comparison.grid.contenders import of_recipe
from dialog.comparison.grid.folder import Grid
from dialog.comparison.results.tracking import log_comparison
from dialog.report.formats.results import Difference, ModelResults, SeedMean


def table(run: Offline, name: str) -> dict[str, Any]:
    """The last table of this name."""
    entry = run.values(name)[-1]
    content: dict[str, Any] = json.loads(
        (run.folder / "files" / entry["path"]).read_text(encoding="utf-8")
    )
    return content


@pytest.mark.endurance
def test_tables_are_in_a_run_of_the_group(tiny: Callable[..., Any], tmp_path: Path) -> None:
    """The seeds of the comparison have the same group; a comparison that continues keeps its
    summary run.
    """
    import wandb

    contender = of_recipe(tiny("lstm", "logger=wandb", "logger.mode=offline"))
    grid = Grid(tmp_path / "families", (contender,), (1,))
    entry = SeedMean(1.25, None, 1)
    difference = Difference(
        *("f1", "lstm", "rnn", "all", "t", 0.5, (0.25, 0.75)), p=0.01, p_holm=0.02, decided=True
    )
    model = ModelResults("lstm", "recipe", summary={"all": {"f1": entry}, "clean": {}})
    for verdict in ("undecided", "decided"):
        results = SimpleNamespace(
            models=(model,),
            differences=(difference,),
            warnings=("one diverged",),
            verdict=verdict,
        )
        log_comparison(grid, results)
        time.sleep(1.1)  # the names of the folders have seconds
    wandb.teardown()  # its service has then written all
    first, second = (
        read_offline(path) for path in sorted((grid.folder / "wandb").glob("offline-run-*"))
    )
    assert first.folder.name.rpartition("-")[2] == second.folder.name.rpartition("-")[2]
    for run, verdict in ((first, "undecided"), (second, "decided")):
        assert run.labels == ("families summary", "families", {"comparison"})
        assert run.values("lstm/f1") == [1.25]
        assert table(run, "summary")["data"] == [["lstm", "all", "f1", "1.25", "", "1"]]
        assert table(run, "differences")["data"] == [
            ["f1", "lstm", "rnn", "all", "0.5", "0.25 to 0.75", "0.01", "0.02", "True"]
        ]
        assert table(run, "verdict")["data"] == [["one diverged"], [verdict]]
