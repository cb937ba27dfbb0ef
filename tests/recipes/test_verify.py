"""``dialog recipes verify`` on recipes that hold, miss and fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dialog.cli import program
from dialog.errors import RunError, UserError

TINY = """defaults: {data: builtin, model: transformer, optimizer: adamw_inverse_sqrt}
data: {corpus: {size: 60}, tokenizer: {vocabulary: 400}, first_turns: true}
model:
  embedding_size: 8
  encoder: {layers: 1, heads: 2, feed_forward_size: 8}
  decoder: {layers: 1, heads: 2, feed_forward_size: 8}
trainer: {accelerator: cpu, max_steps: 4, max_epochs: null}
generation: {max_length: 3}
preflight: false
metrics: [{name: parlai_sets}]
smoke: [trainer.max_steps=1]
"""
EXPECTATIONS = {
    "holds": (
        "[{metric: bits_per_byte, value: 5, tolerance: 5}, {metric: parlai_sets.S1, value: 500,"
        " tolerance: 500}]"
    ),
    "misses": "[{metric: bits_per_byte, value: 0.1, tolerance: 0.01}]",
    "lacks": "[{metric: parlai_sets.S9, value: 1, tolerance: 1}]",
}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    for name, expect in EXPECTATIONS.items():
        (tmp_path / f"{name}.yaml").write_text(f"{TINY}expect: {expect}\n")
    absent = TINY.replace("{size: 60}, tok", "{name: jsonl}, path: nowhere, tok")
    (tmp_path / "absent.yaml").write_text(f"{absent}expect: {EXPECTATIONS['holds']}\n")
    return [f"{name}.yaml" for name in ("absent", *EXPECTATIONS)]


def test_full_verification_names_what_fails(
    written: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        RunError, match=r"3 of 5 checks failed: absent.yaml, misses.yaml, lacks.yaml"
    ):
        program.main(["recipes", "verify", *written, "--full", "--json"], standalone_mode=False)
    rows = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in rows] == ["failed", "held", "held", "missed", "failed"]
    assert "nowhere" in rows[0]["message"]
    assert rows[2]["metric"] == "parlai_sets.S1"
    assert rows[2]["value"] > 1
    assert 0.11 < rows[3]["value"] < 20


def test_smoke_run_measures_without_comparing(
    written: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    program.main(["recipes", "verify", "misses.yaml"], standalone_mode=False)
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["recipe", "metric", "expected", "measured", "outcome"]
    assert row.split()[:4] == ["misses.yaml", "bits_per_byte", "0.100", "±"]
    assert row.endswith("not compared")
    assert head.index("measured") == row.index(row.split()[5])
    with pytest.raises(UserError, match="1 of 1 checks failed"):
        program.main(["recipes", "verify", "absent.yaml"], standalone_mode=False)


def test_unknown_recipe_is_an_error_before_any_runs() -> None:
    with pytest.raises(UserError, match="did you mean 'reverse/transformer'"):
        program.main(
            ["recipes", "verify", "reverse/lstm_luong", "reverse/transforme"], standalone_mode=False
        )
