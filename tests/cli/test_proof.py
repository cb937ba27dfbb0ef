"""``dialog train --prove-resume``: real processes, real kills, and a bit-exact comparison."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from dialog.cli import program
from dialog.errors import UserError
from dialog.runs.proof import compare

SMALL = [
    "data.corpus.size=60",
    "data.tokenizer.vocabulary=400",
    "data.batch_tokens=700",
    "model.embedding_size=16",
]
SIZES = [
    f"model.{side}.{size}"
    for side in ("encoder", "decoder")
    for size in ("heads=2", "feed_forward_size=16")
]


@pytest.mark.endurance
def test_killed_recipe_is_the_same_run(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["train", "quickstart/transformer", *SMALL, *SIZES, "--prove-resume", "--kills", "1"]
    with pytest.raises(SystemExit) as ended:
        program.main(command, standalone_mode=False)
    assert ended.value.code == 0
    numbers, weights, last = capfd.readouterr().out.splitlines()[2:]
    assert re.fullmatch(r"\| logged numbers \| [1-9]\d+ \| 0 \|", numbers)
    assert re.fullmatch(r"\| weights, newest and best \| [1-9]\d+ \| 0 \|", weights)
    assert re.fullmatch(r"killed by SIGKILL after steps \d+", last)


def test_proof_has_no_json() -> None:
    with pytest.raises(UserError, match="--json: not with --prove-resume"):
        program.main(
            ["train", "quickstart/transformer", "--prove-resume", "--json"], standalone_mode=False
        )


def test_comparison_finds_one_changed_number_or_weight(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    one = trained("lstm")
    other = shutil.copytree(one, tmp_path / "other")
    assert compare(one, other).same

    path = other / "metrics.jsonl"
    record = path.read_text(encoding="utf-8")
    *rows, last = map(json.loads, record.splitlines())
    name = next(name for name in last if name not in ("step", "time"))
    changed = {**last, name: last[name] * (1 + 2**-52)}
    path.write_text("".join(json.dumps(row) + "\n" for row in (*rows, changed)), encoding="utf-8")
    assert compare(one, other).other_values == 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert not compare(one, other).same
    path.write_text(record, encoding="utf-8")

    weights = load_file(other / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] += 1e-6
    save_file(weights, other / "model.safetensors")
    assert compare(one, other).other_tensors == 1
    save_file(
        {**load_file(one / "model.safetensors"), "more": weights.popitem()[1]},
        other / "model.safetensors",
    )
    assert compare(one, other).other_tensors == 1
