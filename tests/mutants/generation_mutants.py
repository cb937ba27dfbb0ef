"""Mistakes of searches."""

from __future__ import annotations

from mutant import mutant

BEAM = "generation/searches/beam.py"
CONSTRAINTS = "generation/constraints.py"
BRUTE_FORCE = "generation/test_beam.py::test_a_beam_of_everything_finds_the_best_responses"

MUTANTS = (
    mutant(
        "beam-1",
        "the state is not reordered",
        "generation/test_beam.py::test_scores_are_likelihoods_and_ranks_are_sorted",
        (
            BEAM,
            "state = state.select(rows.flatten())",
            "state = state.select(rows.sort(1).values.flatten())",
        ),
    ),
    mutant(
        "beam-2",
        "finished sources leave, and the memory of the others keeps its place",
        "generation/test_beam.py::test_sources_that_have_ended_change_no_other_source",
        (
            BEAM,
            "memory = memory.select(rows.flatten())",
            "memory = memory.select(torch.arange(rows.numel()))",
        ),
    ),
    mutant(
        "beam-3",
        "the length is off by one",
        BRUTE_FORCE,
        (
            BEAM,
            ".view_as(rows) / self.penalty(length + 1)",
            ".view_as(rows) / self.penalty(length + 2)",
        ),
    ),
    mutant(
        "beam-4",
        "the penalty is not applied",
        BRUTE_FORCE,
        (BEAM, ".view_as(rows) / self.penalty(length + 1)", ".view_as(rows) / 1.0"),
    ),
    mutant(
        "beam-5",
        "the search ends with the first end token",
        BRUTE_FORCE,
        (BEAM, "(ended.count >= self.size)", "(ended.count >= 1)"),
    ),
    mutant(
        "beam-6",
        "finished sources keep growing",
        "generation/test_beam.py::test_batched_equals_single",
        (BEAM, "masked_fill(finished.repeat_interleave(self.size, 1), NEVER)", "clone()"),
    ),
    mutant(
        "beam-7",
        "the end token is allowed before min_length",
        BRUTE_FORCE,
        (CONSTRAINTS, "if length < self.min_length:", "if length < self.min_length - 1:"),
    ),
    mutant(
        "beam-8",
        "hypotheses without an end token are divided by the penalty of one more token",
        "generation/test_beam.py::test_open_hypotheses_are_ranked_by_their_own_length",
        (
            BEAM,
            "beams.totals / self.penalty(self.constraints.max_length)))",
            "beams.totals / self.penalty(self.constraints.max_length + 1)))",
        ),
    ),
    mutant(
        "groups-1",
        "groups end together",
        "generation/test_diverse_beam.py::test_groups_against_the_published_algorithm",
        (BEAM, "(ended.count >= self.size)", "(ended.count.sum(1, keepdim=True) >= self.width)"),
    ),
    mutant(
        "mmi-1",
        "candidates are reranked without their own likelihood",
        "generation/test_mmi.py::test_reranking_everything_is_enumeration",
        (
            "generation/searches/mmi.py",
            "rank=hypothesis.score + self.weight * score",
            "rank=self.weight * score",
        ),
    ),
    mutant(
        "anti-lm-1",
        "the model without a source reads one token too many",
        "generation/test_mmi.py::test_anti_lm_of_everything_is_enumeration",
        (
            "generation/searches/anti_lm.py",
            "if self.length < self.settings.tokens:",
            "if self.length <= self.settings.tokens:",
        ),
    ),
    mutant(
        "ensemble-1",
        "logits are averaged, not probabilities",
        "runs/test_ensemble.py::test_probabilities_are_averaged",
        (
            "models/inference/ensemble.py",
            "torch.stack(scores).logsumexp(0) - math.log(len(scores))",
            "torch.stack(scores).mean(0)",
        ),
    ),
)
