"""What each number of a comparison is called, means, and looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple


def decimals(places: int) -> Callable[[float], str]:
    """A writer of numbers with a fixed number of decimals; those from ten million on as 2.6e+20."""
    return lambda value: f"{value:,.{places}f}" if abs(value) < 1e7 else f"{value:.1e}"


def percent(value: float) -> str:
    """A share in [0, 1] as 41.2 %."""
    return f"{100 * value:.1f} %"


def count(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,.0f}"


def general(value: float) -> str:
    """A number of unknown size in four digits."""
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """45 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def hardware(environment: Mapping[str, Any]) -> str:
    """The GPU of an environment.json where there is one, and the processor with its cores."""
    gpu, processor = environment.get("gpu", "none"), environment.get("cpu", "not recorded")
    cores = f", {environment['cores']} cores" if "cores" in environment else ""
    return ("" if gpu == "none" else f"{gpu}, ") + f"{processor}{cores}"


class Measure(NamedTuple):
    """A metric of results.json; `better` is None where neither direction is, such as the length of a response."""

    label: str
    better: Literal["lower", "higher"] | None
    write: Callable[[float], str]
    meaning: str


MEASURES: dict[str, Measure] = {
    "bits_per_byte": Measure(
        "Bits per byte",
        "lower",
        decimals(3),
        "Negative log-likelihood of the references in bits, end tokens included, over the UTF-8 bytes of their raw "
        "text. Comparable across tokenizers.",
    ),
    "perplexity_word": Measure(
        "Perplexity per word",
        "lower",
        decimals(2),
        "exp(nats / white-space words) over the raw references. Comparable across tokenizers.",
    ),
    "perplexity_token": Measure(
        "Perplexity per token",
        "lower",
        decimals(2),
        "exp(nats / target tokens), one end token a response included. Comparable for one tokenizer only.",
    ),
    "token_accuracy": Measure(
        "Token accuracy",
        "higher",
        percent,
        "Share of target tokens to which the model, given all tokens before, gives the highest probability.",
    ),
    "answer_accuracy": Measure(
        "Answer accuracy",
        "higher",
        percent,
        "Of the questions about what was said before, the share whose response is the reference, word for word.",
    ),
    "alignment_accuracy": Measure(
        "Alignment accuracy",
        "higher",
        percent,
        "Of the response tokens that repeat a context token, the share for which the largest attention weight lies on "
        "that very token; of the best cross-attention head (an LSTM has one, so a Transformer chooses among more).",
    ),
    "f1": Measure(
        "F1",
        "higher",
        decimals(2),
        "Mean over responses of the F1 of shared words (lower case, without punctuation and articles), of 100.",
    ),
    "sacrebleu": Measure(
        "sacreBLEU",
        "higher",
        decimals(2),
        "Corpus BLEU-4 against one reference a response, of 100. Too noisy to rank small dialogue models.",
    ),
    "distinct_1": Measure(
        "Distinct-1",
        None,
        decimals(4),
        "Different words over words of all responses. To be read beside the references' own.",
    ),
    "distinct_2": Measure(
        "Distinct-2", None, decimals(4), "Different pairs of neighbouring words over pairs of all responses."
    ),
    "unique_ratio": Measure("Unique responses", None, percent, "Different responses over responses."),
    "length_mean": Measure("Words a response", None, decimals(1), "Mean white-space words of a response."),
    "questions": Measure("Questions", None, count, "Responses that answer a question about what was said before."),
    "copied_tokens": Measure(
        "Copied tokens", None, count, "Response tokens that are known to repeat a token of the context."
    ),
    "examples": Measure("Examples", None, count, "Responses scored."),
    "tokens": Measure("Target tokens scored", None, count, "Tokens of the references, one end token each included."),
    "words": Measure("Words scored", None, count, "White-space words of the raw references."),
    "bytes": Measure("Bytes scored", None, count, "UTF-8 bytes of the raw references."),
    "nll_nats": Measure("Nats", "lower", decimals(1), "Total negative log-likelihood of the references."),
}


def measure(name: str) -> Measure:
    """The measure of a name of results.json; a user's own metric is shown as it is called."""
    return MEASURES.get(name) or Measure(name, None, general, "")


def in_order(names: set[str]) -> list[str]:
    """Names as they stand in `MEASURES`, then the others by alphabet."""
    return [name for name in MEASURES if name in names] + sorted(names - set(MEASURES))
