"""Mistakes in the analysis of attention, and in metrics."""

from mutant import mutant

SUMS = "analysis/attention/sums.py"
ATTRIBUTION = "analysis/attention/attribution.py"
HAND = "analysis/attention/test_sums.py"
DEFINITIONS = "analysis/attention/test_attribution.py::test_both_equal_their_definitions"
MUTANTS = (
    mutant(
        "analysis-1",
        "entropy is divided by the logarithm of the padded length",
        f"{HAND}::test_rows_that_are_padding_or_see_one_column_do_not_count",
        (
            SUMS,
            "scale = several / visible.clamp(min=2).to(weights.dtype).log()",
            "scale = several / torch.full_like(visible, weights.shape[-1]).to(weights.dtype).log()",
        ),
    ),
    mutant(
        "analysis-2",
        "the last column, padding in shorter rows, counts as the end token",
        "analysis/attention/test_split.py::test_kinds_of_tokens",
        (
            "analysis/attention/token_kinds.py",
            "torch.stack([first, tokens == EOS, roles",
            "torch.stack([first, first.flip(1), roles",
        ),
    ),
    mutant(
        "analysis-3",
        "distances of turns are counted from the first one",
        f"{HAND}::test_mass_on_kinds_and_turns",
        (SUMS, '("mass_distance", 0, last - turns)', '("mass_distance", 0, turns)'),
    ),
    mutant(
        "analysis-4",
        "the rollout forgets the residual connection of the encoder",
        f"{HAND}::test_rollout_equals_the_sum_over_all_paths",
        (
            "analysis/attention/maps.py",
            "encoded = (mean @ kept + kept) / 2",
            "encoded = mean @ kept",
        ),
    ),
    mutant(
        "analysis-5",
        "erasure is replaced by what the token alone gives",
        DEFINITIONS,
        (ATTRIBUTION, "[every != every.unsqueeze(1)]", "[every == every.unsqueeze(1)]"),
    ),
    mutant(
        "analysis-6",
        "the gradient is not multiplied by the input",
        DEFINITIONS,
        (ATTRIBUTION, "(derivative * states).sum(-1)", "derivative.sum(-1)"),
    ),
    mutant(
        "analysis-7",
        "alignment accuracy reads the step after the one that predicts the token",
        f"{HAND}::test_alignment_accuracy_and_error_rate",
        (
            SUMS,
            "hits = (weights[row, :, target].argmax(-1)",
            "hits = (weights[row, :, target - 1].argmax(-1)",
        ),
    ),
    mutant(
        "analysis-8",
        "the alignment error rate is the share of gold links that are missed",
        f"{HAND}::test_alignment_accuracy_and_error_rate",
        (SUMS, "Sum(both - 2 * hits, both)", "Sum(links - hits, links)"),
    ),
    mutant(
        "analysis-9",
        "head importance lets examples of opposite sign cancel",
        "models/attention/test_heads.py::test_importance_is_the_mean_change_of_the_loss_with_the_mask",
        (
            "analysis/attention/importance.py",
            "gradient.double().abs().sum(0)",
            "gradient.double().sum(0).abs()",
        ),
    ),
    mutant(
        "metric-1",
        "F1 is of sets of words, not of multisets",
        "metrics/test_overlap.py::test_f1_counts_repetitions",
        (
            "metrics/scores/overlap.py",
            "own = _counts(response)",
            "own = Counter(set(_counts(response)))",
        ),
        (
            "metrics/scores/overlap.py",
            "gold = _counts(reference)",
            "gold = Counter(set(_counts(reference)))",
        ),
    ),
    mutant(
        "metric-2",
        "hits@1 counts ties as hits",
        "analysis/test_candidates.py::test_candidates_that_tie_rank_before_the_reference",
        (
            "analysis/candidates.py",
            "scores[:, 1:] >= scores[:, :1]",
            "scores[:, 1:] > scores[:, :1]",
        ),
    ),
)
