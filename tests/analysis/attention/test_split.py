"""Statistics of a split against the evaluation of the same run, and the layouts of sources."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import dialog
from dialog.analysis.attention.split import Encoding, batches_of
from dialog.analysis.attention.statistics import curve_statistics, statistics
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.examples import ExampleRules, examples
from dialog.data.store.layout import ROLES, SEPARATED, lines_of_source
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.tokenizer import EOS, OTHER, PAD, SELF, UNK
from dialog.models.hierarchical import turn_numbers


@pytest.mark.parametrize("layout", [ROLES, SEPARATED])
@pytest.mark.parametrize("max_source", [400, 12])
def test_every_layout_has_its_turns(layout: str, max_source: int) -> None:
    """The turn of each token is that of its line; a separator is a role."""
    rules = ExampleRules(None, first_turns=True, silence="SILENCE")
    chosen = list(examples(BuiltinDialogues(size=6).dialogues("train"), rules, Counter()))[:20]
    tokenizer = byte_bpe(
        ["SILENCE", *(turn.text for example in chosen for turn in example.context)], vocabulary=320
    )
    encoding = Encoding(tokenizer, max_source, layout)
    for example in chosen:
        (batch,) = encoding.batches([example])
        source = batch.source if batch.with_roles is None else batch.with_roles
        facts, turns = (
            [len(tokenizer.encode(one.text)) for one in part]
            for part in (example.facts, example.context)
        )
        expected = lines_of_source(facts, turns, max_source=max_source, layout=layout)
        separators = (source == OTHER) | (source == SELF)
        if source.tolist() != [[UNK]]:
            assert separators[0].tolist() == expected.separators
        assert torch.equal(
            source.masked_fill(separators, UNK), batch.source.masked_fill(separators, UNK)
        )
        lines = [line for line in expected.lines if line >= 0]
        numbers = turn_numbers(source, (OTHER, SELF))[0, : len(lines)].tolist()
        # truncated lines have no number
        assert numbers == [sorted(set(lines)).index(line) for line in lines]


def test_kinds_of_tokens() -> None:
    tokenizer = byte_bpe(["Hello , you ! Fine ."] * 3, vocabulary=300)
    ids = [OTHER, *tokenizer.encode("Hello , you !"), EOS, PAD]
    tokens = torch.tensor([ids])
    start, end, roles, marks = (
        TokenKinds.of(tokenizer).indicators(tokens, tokens != PAD)[0].T.tolist()
    )
    assert [place for place, is_first in enumerate(start) if is_first] == [0]
    assert [ids[place] for place, is_end in enumerate(end) if is_end] == [EOS]
    assert [ids[place] for place, is_role in enumerate(roles) if is_role] == [OTHER]
    assert [
        tokenizer.decode([ids[place]]).strip() for place, is_mark in enumerate(marks) if is_mark
    ] == [",", "!"]


@pytest.mark.parametrize("self_attention", [False, True])
def test_curves_are_those_of_the_statistics(
    trained: Callable[[str], Path], self_attention: bool
) -> None:
    run = dialog.load(trained("transformer"))
    chosen = list(
        examples(
            BuiltinDialogues(size=6).dialogues("test"),
            ExampleRules(None, first_turns=True),
            Counter(),
        )
    )[:20]
    batches = list(Encoding(run.tokenizer, 64).batches(chosen))
    kinds = TokenKinds.of(run.tokenizer)
    rows = [
        row for row in statistics(run.model, batches, kinds)["rows"] if row["module"] != "uniform"
    ]
    crosses = [row for row in rows if self_attention or "coverage" in row]
    skipped = ("similarity", "mass_turn_", "mass_distance_")
    assert curve_statistics(run.model, batches, kinds, self_attention=self_attention) == [
        {name: value for name, value in row.items() if not name.startswith(skipped)}
        for row in crosses
    ]


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_alignment_and_likelihood_are_those_of_the_evaluation(
    family: str, trained: Callable[[str], Path]
) -> None:
    run = dialog.load(trained(family))
    metrics = json.loads(
        (run.folder / "evaluation" / "test" / "metrics.json").read_text(encoding="utf-8")
    )
    measured = run.attention_statistics("test", sample=2, quiet=True)
    assert (measured["split"], measured["examples"]) == ("test", metrics["examples"])
    assert measured["target_tokens"] == metrics["tokens"]
    assert measured["sample"]["examples"] == 2
    heads = {f"{row['module']}.{row['head']}": row for row in measured["rows"]}
    assert {name: heads[name]["alignment_accuracy"] for name in metrics["alignment_heads"]} == {
        name: pytest.approx(value) for name, value in metrics["alignment_heads"].items()
    }
    assert json.loads(json.dumps(measured, allow_nan=False)) == measured
    if family == "transformer":
        curve = run.head_ablation("test", sample=10_000, quiet=True)["curve"]
        assert curve[0]["bits_per_byte"] == pytest.approx(metrics["bits_per_byte"], rel=1e-6)
        assert curve[-1]["heads_left"] == 0


def resident() -> float:
    """Return the resident size of this process in MiB."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 2**20


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory and has malloc_trim"
)
def test_memory_that_a_block_has_freed_goes_back_to_the_system() -> None:
    """Blocks of 100 KiB stay in the heap when they are freed, as long as one above them is in
    use.
    """
    rules = ExampleRules(None, first_turns=True)
    example = next(examples(BuiltinDialogues(size=6).dialogues("train"), rules, Counter()))
    encoding = Encoding(byte_bpe([example.response.text], vocabulary=320), 12)
    tensors = [torch.ones(25_600) for _ in range(2000)]
    last, full = tensors[-1], resident()
    tensors.clear()
    assert len([*batches_of([[example]], encoding)]) == 1
    assert resident() < full - 120
    assert last[0] == 1
