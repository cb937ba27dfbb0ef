"""Label, better direction, format and definition of each metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from dialog.report.formats.numbers import count, decimals, general, percent

Better = Literal["lower", "higher"] | None
"""Better direction of a metric; None if neither is better."""


class MetricDisplay(NamedTuple):
    """Presentation of a metric; `better` is None if no direction is better, as for the length of
    responses.

    `same_as` is the metric of which it is a function of the same sums, or nearly so: only one of
    both is tested. `tested` is false if it has no test at all, as a metric that is no function of
    sums over dialogues.
    """

    label: str
    better: Better
    format: Callable[[float], str]
    definition: str
    highest: float = math.inf
    same_as: str = ""
    tested: bool = True

    @property
    def span(self) -> float:
        """Largest difference between two values; fractions and metrics with a `highest` value are
        never negative.
        """
        return 1.0 if self.format is percent else self.highest


LOSSY = " †"
LOSSY_NOTE = (
    " †: the tokenizer does not represent all of the text (white space or case, for example), and"
    " the rest costs nothing; compare runs with this tokenizer only."
)
OF_TEXT = ("bits_per_byte", "perplexity_word")
"""Metrics that are marked if the tokenizer is not lossless."""

METRIC_DISPLAYS: dict[str, MetricDisplay] = {
    "bits_per_byte": MetricDisplay(
        "Bits per byte",
        "lower",
        decimals(3),
        "Negative log-likelihood of the references in bits, end tokens included, plus 8 bits for"
        " each byte of unknown tokens, divided by the UTF-8 bytes of their raw text. Comparable"
        " across lossless tokenizers." + LOSSY_NOTE,
    ),
    "perplexity_word": MetricDisplay(
        "Perplexity per word",
        "lower",
        decimals(2),
        "exp(nats / words of the raw references), charged for unknown tokens as bits per byte. A"
        " letter of a script without spaces is a word. Comparable across lossless tokenizers."
        + LOSSY_NOTE,
        same_as="bits_per_byte",
    ),
    "perplexity_token": MetricDisplay(
        "Perplexity per token",
        "lower",
        decimals(2),
        "exp(nats / target tokens), one end token per response included. Comparable for one"
        " tokenizer only.",
        same_as="bits_per_byte",
    ),
    **{
        f"parlai_sets.{name}": MetricDisplay(
            f"Perplexity per token, {name}",
            "lower",
            decimals(2),
            f"As the perplexity per token, on {examples} (Sankar et al. 2019).",
            tested=False,
        )
        for name, examples in {
            "S1": "the first 1,000 examples that ParlAI's evaluation scores",
            "S2": "all examples that ParlAI's evaluation scores",
            "S3": "all examples",
        }.items()
    },
    "token_accuracy": MetricDisplay(
        "Token accuracy",
        "higher",
        percent,
        "Fraction of target tokens that are the most probable next token under teacher forcing.",
    ),
    "calibration_error": MetricDisplay(
        "Calibration error",
        "lower",
        percent,
        "Expected calibration error: mean difference between the largest token probability under"
        " teacher forcing and the token accuracy, over 10 bins of probability weighted by their"
        " tokens.",
        tested=False,
    ),
    "unknown_ratio": MetricDisplay(
        "Unknown tokens",
        "lower",
        percent,
        "Fraction of target tokens that are unknown.",
        tested=False,
    ),
    "answer_accuracy": MetricDisplay(
        "Answer accuracy",
        "higher",
        percent,
        "Fraction of questions about earlier turns whose response equals the reference word for"
        " word.",
    ),
    "alignment_accuracy": MetricDisplay(
        "Alignment accuracy",
        "higher",
        percent,
        "Fraction of copied response tokens for which the largest attention weight lies on the"
        " context token that they copy; for the best cross-attention head (an LSTM has one head, a"
        " Transformer has the best of several).",
    ),
    "f1": MetricDisplay(
        "F1",
        "higher",
        decimals(2),
        "Unigram F1 of response and reference (lower case, without punctuation and articles), in"
        " [0, 100]; mean over responses. A letter of a script without spaces is a word.",
        100.0,
    ),
    "sacrebleu": MetricDisplay(
        "sacreBLEU",
        "higher",
        decimals(2),
        "Corpus BLEU-4 against one reference per response, in [0, 100] (Papineni et al. 2002; Post"
        " 2018). Too noisy to rank small dialogue models.",
        100.0,
    ),
    **{
        f"bleu_{n}": MetricDisplay(
            f"BLEU-{n}",
            "higher",
            decimals(2),
            f"As sacreBLEU, with n-grams of at most {n} word{'s' * (n > 1)}.",
            100.0,
            "sacrebleu" if n == 4 else "",
        )
        for n in range(1, 5)
    },
    **{
        f"bleu_plato_{n}": MetricDisplay(
            f"BLEU-{n} (NLTK method7)",
            "higher",
            decimals(2),
            f"Mean over responses of NLTK's sentence BLEU-{n} with smoothing method 7, times 100,"
            " as in PLATO (Bao et al. 2020). Random responses of DailyDialog score 25 (BLEU-1) and"
            " 15 (BLEU-2); a copy of the reference scores above 100.",
        )
        for n in range(1, 3)
    },
    "chrf": MetricDisplay(
        "chrF",
        "higher",
        decimals(2),
        "F2 of character n-grams of 1 to 6 characters of the corpus, in [0, 100] (Popovic 2015)."
        " Rewards length.",
        100.0,
    ),
    "rouge_l": MetricDisplay(
        "ROUGE-L",
        "higher",
        decimals(2),
        "F1 of the longest common subsequence of words (lower-cased letters and digits), in [0,"
        " 100]; mean over responses (Lin 2004). A letter of a script without spaces is a word.",
        100.0,
    ),
    "meteor": MetricDisplay(
        "METEOR",
        "higher",
        decimals(2),
        "NLTK's METEOR with WordNet, in [0, 100]; mean over responses (Banerjee & Lavie 2005).",
        100.0,
    ),
    "embedding_average": MetricDisplay(
        "Embedding average",
        "higher",
        decimals(2),
        "Cosine of the mean word vectors of response and reference, times 100; mean over responses"
        " (Liu et al. 2016).",
    ),
    "bert_score": MetricDisplay(
        "BERTScore",
        "higher",
        decimals(2),
        "F1 of the best matches of contextual token embeddings, times 100, without rescaling; mean"
        " over responses (Zhang et al. 2020). Compare values of the same model only.",
    ),
    "mauve": MetricDisplay(
        "MAUVE",
        "higher",
        decimals(2),
        "Area under the divergence curve of the embeddings of all responses and references, in [0,"
        " 100] (Pillutla et al. 2021). Compare values of the same model and number of responses"
        " only.",
        100.0,
        tested=False,
    ),
    "distinct_1": MetricDisplay(
        "Distinct-1",
        None,
        decimals(4),
        "Distinct words / words of all responses (Li et al. 2016). Compare it with the value of the"
        " references.",
        1.0,
    ),
    "distinct_2": MetricDisplay(
        "Distinct-2", None, decimals(4), "Distinct bigrams / bigrams of all responses.", 1.0
    ),
    "rarefied_distinct_2": MetricDisplay(
        "Rarefied distinct-2",
        None,
        decimals(4),
        "Expected distinct bigrams / m among m bigrams that are drawn from all responses, where m"
        " is half the number of bigrams of the references; missing bigrams count as repetitions."
        " Does not reward short responses.",
        1.0,
    ),
    "ead_1": MetricDisplay(
        "EAD-1",
        None,
        decimals(4),
        "Expectation-adjusted distinct-1: distinct words / expected number of distinct words among"
        " as many that are drawn uniformly from a vocabulary of 30,522 (Liu et al. 2022). Corrects"
        " for the length of responses, not for their number.",
    ),
    "ead_2": MetricDisplay(
        "EAD-2",
        None,
        decimals(4),
        "As EAD-1, for bigrams, of which a vocabulary of 30,522 words has 30,522 squared.",
    ),
    "entropy_1": MetricDisplay(
        "Entropy-1",
        None,
        decimals(3),
        "Entropy of the words of all responses, in nats (Zhang et al. 2018).",
    ),
    "entropy_2": MetricDisplay(
        "Entropy-2", None, decimals(3), "Entropy of the bigrams of all responses, in nats."
    ),
    "unique_ratio": MetricDisplay(
        "Unique responses", None, percent, "Distinct responses / responses."
    ),
    "dullness": MetricDisplay(
        "20 most frequent",
        None,
        percent,
        "Share of responses that equal one of the system's 20 most frequent responses.",
    ),
    "self_bleu": MetricDisplay(
        "Self-BLEU",
        None,
        decimals(2),
        "Mean sentence BLEU-4 of 500 responses, drawn with a fixed seed, with the other 499 as"
        " references, in [0, 100] (Zhu et al. 2018). High if responses resemble each other.",
        100.0,
    ),
    "repetition_3": MetricDisplay(
        "Repeated 3-gram",
        "lower",
        percent,
        "Share of responses in which three words in a row occur more than once.",
    ),
    "train_copy_ratio": MetricDisplay(
        "Copied from training",
        None,
        percent,
        "Share of responses that are equal to a response of the training split, up to white space.",
    ),
    "hits_1_of_20": MetricDisplay(
        "Hits@1 of 20",
        "higher",
        percent,
        "Share of examples whose reference has a higher mean log-likelihood per token than 19 other"
        " references of the split; on at most 200 examples drawn with a fixed seed. Chance is 5 %.",
    ),
    "length_mean": MetricDisplay(
        "Words per response", None, decimals(2), "Mean number of words per response."
    ),
    "questions": MetricDisplay(
        "Questions", None, count, "Number of responses that answer a question on earlier turns."
    ),
    "copied_tokens": MetricDisplay(
        "Copied tokens",
        None,
        count,
        "Number of response tokens that are known copies of a context token.",
    ),
    "examples": MetricDisplay("Examples", None, count, "Number of scored references."),
    "dialogues": MetricDisplay(
        "Dialogues", None, count, "Number of dialogues with a scored reference."
    ),
    "tokens": MetricDisplay(
        "Target tokens", None, count, "Tokens of the references, one end token each included."
    ),
    "words": MetricDisplay("Reference words", None, count, "Words of the raw references."),
    "bytes": MetricDisplay("Reference bytes", None, count, "UTF-8 bytes of the raw references."),
    "nll_nats": MetricDisplay(
        "NLL (nats)",
        "lower",
        decimals(1),
        "Total negative log-likelihood of the references.",
        same_as="bits_per_byte",
        tested=False,
    ),
}


def metric_display(name: str) -> MetricDisplay:
    """Return the presentation of a metric; the metrics of users have their name as label."""
    return METRIC_DISPLAYS.get(name) or MetricDisplay(name, None, general, "")


def better_of(pair: tuple[str, str], difference: float | None, better: Better) -> str | None:
    """Return the better one of a pair, by the first one's value minus the second's; None if neither
    is better.
    """
    if better is None or not difference:
        return None
    return pair[0] if (difference > 0) == (better == "higher") else pair[1]


def metric_at(metrics: Mapping[str, Any], name: str) -> float | None:
    """Return a metric by its dotted name, such as ``parlai_sets.S1``; None without a value."""
    value: object = metrics
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return metric_value(value)


def best_first(metric: str, values: Mapping[str, float]) -> list[str]:
    """Return the names of values of a metric, the best value first."""
    return sorted(values, key=values.__getitem__, reverse=metric_display(metric).better == "higher")


def lossy_mark(name: str, metrics: Mapping[str, Any]) -> str:
    """Return `LOSSY` for a metric that metrics.json has measured with a tokenizer that is not
    lossless.
    """
    return LOSSY if name in OF_TEXT and metrics.get("lossless") is False else ""


def metric_value(value: Any) -> float | None:
    """Return a metric of metrics.json as one finite number: itself, or its "score"; None if it has
    neither.
    """
    number = value.get("score") if isinstance(value, Mapping) else value
    if not isinstance(number, int | float) or isinstance(number, bool) or not math.isfinite(number):
        return None
    return float(number)


def sort_metrics(names: set[str]) -> list[str]:
    """Sort metrics as in `METRIC_DISPLAYS`, followed by the others in alphabetical order."""
    return [name for name in METRIC_DISPLAYS if name in names] + sorted(
        names - set(METRIC_DISPLAYS)
    )
