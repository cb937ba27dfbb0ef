"""The classic mistakes of this field, put in one by one, and the test that finds each.

    python tests/mutants/mutants.py [--only attention]

works on a copy. First every named test passes on the code as it is; then each mutant must make its test fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COPIED = ("dialog", "configs", "recipes", "tests", "pyproject.toml", "README.md")


class Edit(NamedTuple):
    """In a file, ``old`` becomes ``new``."""

    file: str
    old: str
    new: str


class Mutant(NamedTuple):
    """One mistake, and the test that finds it."""

    name: str
    mistake: str
    test: str
    edits: tuple[Edit, ...]


def mutant(name: str, mistake: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """Edits in files below ``dialog/``, a test below ``tests/``."""
    return Mutant(name, mistake, f"tests/{test}", tuple(Edit(f"dialog/{file}", old, new) for file, old, new in edits))


SOFTMAX = "models/attention/softmax.py"
MULTI_HEAD = "models/attention/multi_head.py"
BAHDANAU = "models/recurrent/bahdanau.py"
CELLS = "models/recurrent/cells.py"
ENCODER = "models/recurrent/encoder.py"
STORAGE = "training/checkpoints/checkpoint_io.py"
HASHES = "training/checkpoints/manifest.py"
SPEAKER = "models/transformer/decoder.py"
TRAINING_STEP = "training/step.py"
MASK = "mask = targets != self.padding"
PREDICTED = "training/test_step.py::test_tokens_and_end_are_predicted_from_those_before"
ASK = "            context, read = self.attention(loop.top.unsqueeze(1), memory, read, watch)  # [B, 1, M]\n"
STEP = "            loop.step(gates, context.squeeze(1))\n"
LATE = (
    "            before = contexts[-1] if contexts else gates.new_zeros(len(gates), self.stack.split[1])\n"
    "            loop.step(gates, before)\n"
)
SHOW = "            if hook is not None:\n                hook(self, weights)\n"
ONCE = "data/store/test_plan.py::test_each_example_once_in_equal_numbers_of_full_batches"
FULL = '    largest = np.argsort(-sizes, kind="stable")[:missing]  # only these can be halved\n'
DROP = "            mixed = mix(weights, values, dropout)"

MUTANTS = (
    mutant(
        "loss-1",
        "mean over ranks",
        "training/test_sums.py::test_a_step_is_of_all_its_tokens",
        ("training/sums.py", "self.unit = mean_over_ranks(tokens, objective)", "self.unit = tokens"),
    ),
    mutant(
        "loss-1b",
        "mean over accumulated batches",
        "training/test_sums.py::test_a_step_is_of_all_its_tokens",
        ("training/sums.py", "if not self.sums:", "if True:"),
        ("training/module.py", "if micro_batches > 1:", "if False:"),
    ),
    mutant(
        "loss-2",
        "padding in the loss",
        PREDICTED,
        (TRAINING_STEP, MASK, "mask = targets >= 0"),
        (TRAINING_STEP, "mask.nonzero() if count is None else mask.nonzero_static(size=count)", "mask.nonzero()"),
    ),
    mutant(
        "loss-3",
        "predicts the token that it reads",
        PREDICTED,
        (TRAINING_STEP, "decode(model, target[:, :-1]", "decode(model, target[:, 1:]"),
    ),
    mutant(
        "loss-4",
        "predicts the token after the next",
        PREDICTED,
        (TRAINING_STEP, "targets = target[:, 1:]", "targets = target[:, 1:].roll(-1, 1)"),
    ),
    mutant(
        "loss-5",
        "label smoothing counts padding",
        PREDICTED,
        (TRAINING_STEP, MASK, "mask = targets >= 0"),
        (
            "training/losses/single.py",
            'nll = F.nll_loss(log_p, targets, reduction="sum")',
            'nll = F.nll_loss(log_p, targets, reduction="sum", ignore_index=PAD)',
        ),
    ),
    mutant(
        "loss-6",
        "the end token is not in the loss",
        PREDICTED,
        (TRAINING_STEP, MASK, "mask = (targets != self.padding) & (targets != 2)"),
    ),
    mutant(
        "attention-1",
        "softmax over the rows of a batch",
        "models/attention/test_softmax.py::test_masked_softmax_is_a_distribution_over_real_entries",
        (SOFTMAX, "filled.softmax(-1,", "filled.softmax(0,"),
    ),
    mutant(
        "attention-2",
        "the mask is inverted",
        "models/attention/test_softmax.py::test_masked_softmax_is_a_distribution_over_real_entries",
        (SOFTMAX, "scores.masked_fill(~mask,", "scores.masked_fill(mask,"),
    ),
    mutant(
        "attention-3",
        "no mask over the source",
        "models/attention/test_laws.py::test_padding_is_never_read",
        ("models/attention/attention.py", "masked_softmax(scores, mask)", "masked_softmax(scores, None)"),
    ),
    mutant(
        "attention-4",
        "a token does not see itself",
        "models/attention/test_multi_head.py::test_the_last_query_sees_all_keys",
        (MULTI_HEAD, ".tril(keys - queries)", ".tril(keys - queries - 1)"),
    ),
    mutant(
        "attention-4b",
        "a token sees the next one",
        "models/attention/test_multi_head.py::test_the_last_query_sees_all_keys",
        (MULTI_HEAD, ".tril(keys - queries)", ".tril(keys - queries + 1)"),
    ),
    mutant(
        "attention-5",
        "scores over d, not its root",
        "models/attention/test_multi_head.py::test_multi_head_attention_agrees_with_torch",
        (MULTI_HEAD, "/ math.sqrt(query.shape[-1])", "/ query.shape[-1]"),
    ),
    mutant(
        "attention-6",
        "dropout in evaluation",
        "models/attention/test_multi_head.py::test_hook_gets_the_weights_before_dropout",
        (MULTI_HEAD, "dropout = self.dropout if self.training else 0.0", "dropout = self.dropout"),
    ),
    mutant(
        "attention-7",
        "the weights shown are those after dropout",
        "models/attention/test_multi_head.py::test_hook_gets_the_weights_before_dropout",
        (
            MULTI_HEAD,
            SHOW + DROP,
            "            weights = F.dropout(weights, dropout)\n" + SHOW + "            mixed = weights @ values",
        ),
    ),
    mutant(
        "attention-8",
        "the decoder asks with s_i, not s_(i-1)",
        "models/recurrent/test_decoders.py::test_decoder_follows_the_equations_of_its_docstring",
        (BAHDANAU, ASK + STEP, LATE + ASK),
    ),
    mutant(
        "positions-1",
        "off by one when it goes on",
        "models/transformer/test_transformer_variants.py::test_every_kind_keeps_the_laws",
        (SPEAKER, "self.positions(inputs, state.length)", "self.positions(inputs, max(state.length - 1, 0))"),
    ),
    mutant(
        "positions-2",
        "sine and cosine swapped",
        "models/test_positions.py::test_sinusoidal_positions_follow_their_formula",
        ("models/positions.py", "[angles.sin(), angles.cos()]", "[angles.cos(), angles.sin()]"),
    ),
    mutant(
        "positions-3",
        "positions are added twice",
        "models/transformer/test_transformer.py::test_decoder_agrees_with_torchs_stack",
        (SPEAKER, "self.positions(inputs, state.length)", "self.positions(self.positions(inputs, state.length))"),
    ),
    mutant(
        "LSTM-1",
        "the backward direction begins in the padding",
        "models/recurrent/test_encoder.py::test_padding_reaches_neither_direction",
        (ENCODER, "torch.where(mask, lengths - 1 - steps, steps)", "steps.flip(0).expand_as(mask)"),
    ),
    mutant(
        "LSTM-2",
        "the bridge drops the backward direction",
        "models/recurrent/test_bridges.py::test_bridge_keeps_both_directions",
        (
            "models/recurrent/bridges.py",
            "self.dense(summary)",
            "self.dense(summary * (torch.arange(summary.shape[-1]) < summary.shape[-1] // 2))",
        ),
    ),
    mutant(
        "LSTM-3",
        "hidden state and cell are swapped",
        "models/recurrent/test_cells.py::test_layers_at_once_equal_layers_step_by_step",
        (CELLS, "return outputs, last.squeeze(0), cell.squeeze(0)", "return outputs, cell.squeeze(0), last.squeeze(0)"),
    ),
    mutant(
        "LSTM-4",
        "states end with the longest real row",
        "models/recurrent/test_encoder.py::test_encoder_agrees_with_torch_on_packed_sequences",
        (ENCODER, "states.masked_fill(~real, 0.0)", "states.masked_fill(~real, 0.0)[:, : int(lengths.max())]"),
    ),
    mutant(
        "training-3",
        "random generators go on anyhow",
        "resume/test_resume.py::test_run_with_power_cuts_is_the_whole_run",
        ("training/callbacks/reseed.py", "        reseed(self.seed,", "        (self.seed,"),
    ),
    mutant(
        "training-4",
        "the optimizer begins anew",
        "resume/test_resume.py::test_run_with_power_cuts_is_the_whole_run",
        (STORAGE, "        return checkpoint\n", '        return {**checkpoint, "optimizer_states": []}\n'),
    ),
    mutant(
        "infra-1",
        "a checkpoint is written in its place",
        "training/checkpoints/test_checkpoint_io.py::test_files_are_synced_before_they_are_renamed",
        (HASHES, "rename(new, path)", "path.write_bytes(new.read_bytes())"),
    ),
    mutant(
        "infra-2",
        "a checkpoint is not synced",
        "training/checkpoints/test_checkpoint_io.py::test_files_are_synced_before_they_are_renamed",
        (HASHES, "        sync(new)\n", ""),
    ),
    mutant(
        "infra-3",
        "hashes are not compared",
        "training/checkpoints/test_checkpoint_io.py::test_damaged_file_is_rejected",
        (HASHES, "sha256(path) in _listed(hashes, path.name)", "hashes"),
    ),
    mutant(
        "infra-3b",
        "changed weights are loaded",
        "runs/test_verify.py::test_bit_flips_are_detected",
        ("runs/load.py", "    check_intact(folder / WEIGHTS, weights_remedy(folder))\n", ""),
    ),
    mutant(
        "infra-4",
        "a checkpoint may run code",
        "training/checkpoints/test_checkpoint_io.py::test_only_plain_types_and_tensors_are_loaded",
        (STORAGE, "weights_only=True)", "weights_only=False)"),
    ),
    mutant(
        "infra-4b",
        "a damaged checkpoint is listed as intact when a run is resumed",
        "training/checkpoints/test_checkpoint_io.py::test_damaged_file_stays_damaged_after_clean_up",
        (
            STORAGE,
            ' for path in sorted(folder.glob("*.ckpt")) if storage.damage(path) is None]',
            ' for path in sorted(folder.glob("*.ckpt"))]',
        ),
    ),
    mutant(
        "training-8",
        "every rank resumes with the target tokens of all ranks",
        "resume/test_kills.py::test_signal_to_any_rank_stops_all_at_one_step",
        (
            "training/module.py",
            'checkpoint["target_tokens"] if rank() == 0 else 0',
            'checkpoint["target_tokens"]',
        ),
    ),
    mutant(
        "infra-5",
        "text is put into a page as it is",
        "inspection/test_output.py::test_hostile_text_is_escaped",
        ("report/page.py", "autoescape=True", "autoescape=False"),
    ),
    mutant(
        "infra-6",
        "a share that just reaches the limit is refused",
        "cli/corpora/test_counts.py::test_more_than_max_dropped_is_an_error",
        ("data/preparation/checks.py", "dropped > max_dropped * read", "dropped >= max_dropped * read"),
    ),
    mutant(
        "infra-7",
        "the command line and what is printed go to Weights & Biases",
        "training/test_wandb.py::test_no_secret_is_written",
        ("training/loggers/wandb_tracker.py", '"x_disable_meta": True', '"x_disable_meta": False'),
    ),
    mutant(
        "training-1",
        "the schedule goes on once an epoch, not once a step",
        "training/test_module.py::test_inverse_square_root_schedule",
        ("training/module.py", '"interval": "step"', '"interval": "epoch"'),
    ),
    mutant(
        "training-2",
        "the gradient is clipped before it is unscaled",
        "training/test_module.py::test_clipping_with_a_fused_optimizer_in_mixed_precision",
        ("training/module.py", "            scaler.unscale_(optimizer)", "            pass"),
    ),
    mutant(
        "training-5",
        "the best weights are those of the highest loss",
        "training/checkpoints/test_best_and_last.py::test_best_has_the_lowest_loss_and_last_the_last_step",
        ("training/checkpoints/best_and_last.py", '"validation/loss": "min"', '"validation/loss": "max"'),
    ),
    mutant(
        "training-7",
        "tied weights are untied by what is loaded",
        "training/callbacks/test_averaging.py::test_tied_weights_stay_tied_in_a_resumed_run",
        ("training/callbacks/averaging.py", 'saved["weights"], strict=False', 'saved["weights"], False, True'),
    ),
    mutant(
        "data-4",
        "batches are repeated so that every process has as many",
        ONCE,
        ("data/store/plan.py", FULL, "    return np.concatenate([batches, batches[:missing]])\n" + FULL),
    ),
    mutant(
        "training-6",
        "the last batches of an epoch, too few for a whole step, are dropped",
        ONCE,
        ("data/store/plan.py", "_split(sizes, widths, group=group)", "_split(sizes, widths, group=1)"),
    ),
    mutant(
        "training-6b",
        "the gradient of a last step of fewer batches stays too small",
        "training/test_sums.py::test_a_step_is_of_all_its_tokens",
        ("training/module.py", "if micro_batches > 1:", "if False:"),
    ),
)


def passes(folder: Path, tests: Iterable[str]) -> bool:
    """Whether tests of a copy pass; an error of collection is neither."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode == 0


def killed(folder: Path, mutant: Mutant) -> bool:
    """Whether a mutant's test finds it; the copy is as before afterwards."""
    texts = {edit.file: (folder / edit.file).read_text(encoding="utf-8") for edit in mutant.edits}
    for edit in mutant.edits:
        text = (folder / edit.file).read_text(encoding="utf-8")
        (folder / edit.file).write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    try:
        return not passes(folder, [mutant.test])
    finally:
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")


def main() -> int:
    """Print a table; 1 if a mutant lives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only mutants whose name begins so")
    only = parser.parse_args().only
    chosen = [each for each in MUTANTS if each.name.startswith(only)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        if not passes(folder, sorted({each.test for each in chosen})):
            raise SystemExit("the tests fail without a mutant")
        alive = 0
        print("| mutant | mistake | found by | seconds |\n| --- | --- | --- | ---: |")
        for each in chosen:
            began = time.monotonic()
            found = killed(folder, each)
            alive += not found
            test = each.test.removeprefix("tests/") if found else f"**nothing** ({each.test})"
            print(f"| {each.name} | {each.mistake} | {test} | {time.monotonic() - began:.0f} |", flush=True)
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
