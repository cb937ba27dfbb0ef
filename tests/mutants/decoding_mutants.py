"""Mistakes of sampling, constraints, ranks and the removal of finished rows."""

from __future__ import annotations

from mutant import mutant

BEAM = "generation/searches/beam.py"
ROWS = "generation/searches/rows.py"
SAMPLING = "generation/searches/sampling.py"
CONTRASTIVE = "generation/searches/contrastive.py"
CONSTRAINTS = "generation/constraints.py"
BANKS = "generation/searches/banks.py"

BRUTE_FORCE = "generation/test_beam.py::test_a_beam_of_everything_finds_the_best_responses"
BATCHED_BEAM = "generation/test_beam.py::test_batched_equals_single"
REMOVAL = "generation/test_greedy.py::test_removing_finished_rows_changes_no_reply"
FREQUENCIES = "generation/test_sampling.py::test_draws_have_the_stated_frequencies"
SEEDS = "generation/test_sampling.py::test_a_seed_gives_the_same_text_in_any_batch"
CANDIDATES = "generation/test_sampling.py::test_candidates_are_sorted_by_likelihood"
LOGITS = "generation/test_constraints.py::test_penalties_of_logits_by_hand"
BANNED = "generation/test_constraints.py::test_banned_words_do_not_occur_in_any_spelling"
BY_FORMULA = "generation/test_contrastive.py::test_choices_follow_the_formula"

MUTANTS = (
    mutant(
        "sampling-1",
        "top-p drops the token that reaches the mass",
        FREQUENCIES,
        (SAMPLING, "gather(1, ids).cumsum(-1).roll(1, -1)", "gather(1, ids).cumsum(-1)"),
    ),
    mutant(
        "sampling-2",
        "the temperature applies after the truncation, to probabilities",
        FREQUENCIES,
        (
            SAMPLING,
            "scaled = ((preferences - highest) / self.temperature).softmax(-1)  # [n, V]",
            "scaled = preferences.softmax(-1)",
        ),
        (
            SAMPLING,
            "return torch.addcmul(kept, scaled, nothing.float())",
            "return kept ** (1 / self.temperature)",
        ),
    ),
    mutant("sampling-3", "the seed is ignored", SEEDS, (SAMPLING, "repr((seed, [", "repr((0, [")),
    mutant(
        "sampling-4",
        "the draws depend on the padding",
        SEEDS,
        (SAMPLING, "[token for token in source if token != PAD]", "source"),
    ),
    mutant(
        "sampling-5",
        "all candidates of a source have the same draws",
        CANDIDATES,
        (
            SAMPLING,
            "row_uniform(self.seed, *row, shape) for row",
            "row_uniform(self.seed, *row, (1, shape[1])).repeat(times, 0) for row",
        ),
    ),
    mutant(
        "sampling-10",
        "equal sources get equal draws",
        SEEDS,
        (SAMPLING, "if token != PAD], name)", "if token != PAD])"),
    ),
    mutant(
        "sampling-6",
        "min-p is a share of 1, not of the largest probability",
        FREQUENCIES,
        (SAMPLING, "self.min_p * scaled.amax(-1, keepdim=True)", "self.min_p"),
    ),
    mutant(
        "sampling-7",
        "typical sampling keeps the most probable tokens",
        FREQUENCIES,
        (SAMPLING, "(information - entropy).abs()", "information"),
    ),
    mutant(
        "sampling-8",
        "a token without probability can be drawn",
        "generation/test_sampling.py::test_a_probability_of_zero_is_never_drawn",
        (SAMPLING, "right=True", "right=False"),
    ),
    mutant(
        "sampling-9",
        "the response is not the most probable draw",
        CANDIDATES,
        ("generation/search.py", "finished, -hypothesis.rank", "finished, hypothesis.rank"),
    ),
    mutant(
        "penalty-1",
        "GNMT's length penalty counts one token more",
        "generation/test_beam.py::test_length_penalties_by_hand",
        ("generation/searches/hypotheses.py", "(5 + length) / 6", "(6 + length) / 6"),
    ),
    mutant(
        "stopping-1",
        "the search ends once the best hypothesis cannot be exceeded, whatever the others",
        BRUTE_FORCE,
        (BEAM, "(ended.ranks[..., -1] >= bound)", "(ended.ranks[..., 0] >= bound)"),
    ),
    mutant(
        "stopping-2",
        "the bound of open hypotheses supposes that they end now",
        BRUTE_FORCE,
        (
            BEAM,
            "bound = best / self.penalty(self.constraints.max_length + 1)",
            "bound = best / self.penalty(1)",
        ),
    ),
    mutant(
        "removal-1",
        "finished rows leave, and the memory of the others keeps its place",
        REMOVAL,
        (
            ROWS,
            "memory = memory.select(keep)",
            "memory = memory.select(torch.arange(len(keep)))",
        ),
    ),
    mutant(
        "removal-2",
        "finished rows leave, and the state of the others keeps its place",
        REMOVAL,
        (
            ROWS,
            "state = state.select(keep)",
            "state = state.select(torch.arange(len(keep)))",
        ),
    ),
    mutant(
        "removal-3",
        "finished rows leave, and the results of the others go to their places",
        REMOVAL,
        (
            ROWS,
            "last, rows, source, ended = (part[keep] for part in (last, rows, source, ended))",
            (
                "rows, (last, source, ended) = rows[: len(keep)], (part[keep] for part in (last,"
                " source, ended))"
            ),
        ),
    ),
    mutant(
        "constraints-1",
        "n-grams that end with the second token of a response are not blocked",
        "generation/test_constraints.py::test_no_ngram_of_the_context_occurs",
        (
            CONSTRAINTS,
            "if order and prefix.shape[1] >= order - 1",
            "if order and prefix.shape[1] >= order",
        ),
    ),
    mutant(
        "constraints-2",
        "an n-gram of one row is blocked in all rows",
        BATCHED_BEAM,
        (
            CONSTRAINTS,
            "masked_fill_(blocked.bool(), NEVER)",
            "masked_fill_(blocked.bool().any(0), NEVER)",
        ),
    ),
    mutant(
        "constraints-3",
        "the repetition penalty makes improbable tokens more probable",
        LOGITS,
        (CONSTRAINTS, "repeated * self.repetition_penalty)", "repeated / self.repetition_penalty)"),
    ),
    mutant(
        "constraints-4",
        "the frequency penalty counts a token once",
        LOGITS,
        (
            CONSTRAINTS,
            "- self.frequency_penalty * counts",
            "- self.frequency_penalty * (counts > 0)",
        ),
    ),
    mutant(
        "constraints-5",
        "penalties change the scores",
        "generation/test_constraints.py::test_constraints_change_choices_and_not_scores",
        (CONSTRAINTS, "return scores, preferences", "return preferences, preferences"),
    ),
    mutant(
        "constraints-6",
        "only the first token of the prefix is forced",
        "generation/test_constraints.py::test_a_response_begins_with_the_prefix",
        (CONSTRAINTS, "if length < len(self.prefix):", "if length < min(1, len(self.prefix)):"),
    ),
    mutant(
        "constraints-7",
        "banned words are found within one token only",
        BANNED,
        (
            CONSTRAINTS,
            "banned=self.banned.after(progress.banned, tokens)",
            "banned=progress.banned",
        ),
    ),
    mutant(
        "constraints-8",
        "the progress of words is not reordered with the beams",
        "generation/test_constraints.py::test_required_words_occur",
        (
            BEAM,
            "progress = progress.select(rows.flatten())",
            "progress = progress.select(rows.sort(1).values.flatten())",
        ),
    ),
    mutant(
        "constraints-9",
        "a row in which everything is masked goes past its end",
        "generation/test_constraints.py::test_a_row_in_which_everything_is_masked_ends",
        (CONSTRAINTS, "torch.where(stuck, ends, ", "torch.where(stuck, NEVER, "),
    ),
    mutant(
        "banks-1",
        "hypotheses with and without the required words compete",
        "generation/test_required_words.py::test_places_go_to_each_bank_in_turn",
        (BANKS, "banks = needed + ", "banks = 0 * needed + "),
    ),
    mutant(
        "banks-2",
        "the next token of a required word has to be probable",
        "generation/test_required_words.py::test_words_fit_into_the_shortest_response",
        (BANKS, ".masked_fill(twice, NEVER)", ".masked_fill(twice | True, NEVER)"),
    ),
    mutant(
        "banks-3",
        "a hypothesis with a required word has it for ever",
        "generation/test_required_words.py::test_tokens_that_are_needed_by_hand",
        (
            "generation/required_words.py",
            "missing & ~self.occurring[states, tokens]",
            (
                "missing & ~self.occurring[states, tokens] &"
                " ~self.complete_at_end[self.after[states, tokens]]"
            ),
        ),
    ),
    mutant(
        "contrastive-1",
        "alpha weighs the probability",
        BY_FORMULA,
        (
            CONTRASTIVE,
            "(1 - self.alpha) * best.exp() - self.alpha * similar",
            "self.alpha * best.exp() - (1 - self.alpha) * similar",
        ),
    ),
    mutant(
        "contrastive-2",
        "a choice is compared with the last token only",
        BY_FORMULA,
        (
            CONTRASTIVE,
            "(own @ seen.transpose(1, 2)).amax(-1)",
            "(own @ seen.transpose(1, 2))[..., -1]",
        ),
    ),
    mutant(
        "requests-1",
        "a request gets the search that was built for an earlier one",
        "chat/test_commands.py::test_candidates_are_listed_with_score_and_length",
        ("generation/responder.py", 'key = f"{device} {component}"', 'key = f"{device}"'),
    ),
    mutant(
        "constraints-10",
        "n-grams of the source forbid the end token, with which the source ends",
        "generation/test_constraints.py::test_the_end_of_the_context_can_end_a_response",
        (CONSTRAINTS, "                blocked[:, self.end] = 0", "                pass"),
    ),
)
