"""Card of an exported folder: what the model is, code that generates a response, parity, and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dialog.data.store.layout import ROLES
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF, UNK
from dialog.export.contract import Format
from dialog.json_files import read_json
from dialog.models.seq2seq import count_parameters
from dialog.report.formats.metrics import metric_display, metric_value
from dialog.report.markdown import escape_markdown
from dialog.runs.run import Run
from dialog.version import __version__

METRICS = ("bits_per_byte", "perplexity_word", "f1", "distinct_2", "length_mean")
"""Metrics of the test split that the card shows."""


def card(run: Run, chosen: Format, parity: str) -> str:
    """Return the card as Markdown; texts of the run cannot become links, tags or code."""
    model, corpus = run.recipe.model, run.recipe.data.corpus["name"]
    size = count_parameters(run.model)["total"]
    parts = [
        f"---\nlibrary_name: {chosen.packages[0]}\ntags:\n- dialogue\n- dialog-seq2seq\n---",
        f"# {escape_markdown(run.name)}",
        f"Generates the next turn of a dialogue. Encoder {escape_markdown(model.encoder['name'])}, decoder "
        f"{escape_markdown(model.decoder['name'])}, {size:,} parameters, trained from scratch on the corpus "
        f"{escape_markdown(corpus)}. Exported for {chosen.engine} by dialog-seq2seq {__version__}.",
        "## Generate a response",
        f"In this folder:\n\n```python\n{program(run, chosen)}```",
        "## Parity",
        f"{chosen.engine} against the original network: {parity}. `parity.json` has the versions.",
        *_results(run),
    ]
    return "\n\n".join(parts) + "\n"


def program(run: Run, chosen: Format) -> str:
    """Return the Python code of the card: from a context to a response, with `tokenizers` and the engine."""
    return (
        "from tokenizers import Tokenizer\n\n"
        'tokenizer = Tokenizer.from_file("tokenizer.json")\n'
        'tokenizer.encode_special_tokens = True  # "</s>" in a text is text\n\n\n'
        f"{source_code(run)}\n\n"
        'context = ["Hi !", "Hello . How are you ?"]  # turns of two alternating speakers; the last one is answered\n'
        "source = source_ids(context)\n"
        f"{chosen.usage(run).rstrip()}\n"
        "print(tokenizer.decode(response))\n"
    )


def source_code(run: Run) -> str:
    """Return the function `source_ids`, which lays a context out as in training; see `data/store/layout.py`."""
    data = run.recipe.data
    room = data.max_source if data.layout == ROLES else data.max_source + 2
    text = "turn.strip()" if data.normalise else "turn"
    last = "context" if data.context_turns is None else f"context[max(0, len(context) - {data.context_turns}) :]"
    result = "[*facts, *roles[start : start + 1], *ids[start + 1 :], END]"
    lines = [
        "def source_ids(context):",
        f"    OTHER, SELF, UNKNOWN, END = {OTHER}, {SELF}, {UNK}, {EOS}",
        f"    turns, ids, roles, facts = {last}, [], [], []",
        "    for place, turn in enumerate(turns):",
        "        role = OTHER if (len(turns) - place) % 2 else SELF",
        f"        tokens = tokenizer.encode({text}, add_special_tokens=False).ids",
        "        ids += [role, *tokens]",
        "        roles += [role] * (1 + len(tokens))",
    ]
    if data.silence is not None:
        lines += [
            "    if len(context) % 2 == 0:",
            f"        silence = tokenizer.encode({literal(data.silence)}, add_special_tokens=False).ids",
            f"        facts = [SELF, *silence][: {room // 2}]",
        ]
    lines.append(f"    start = max(0, len(ids) - ({room} - len(facts) - 1))")
    if data.layout == ROLES:
        lines.append(f"    return {result}")
    else:
        lines.append(f"    ids = {result}")
        lines.append("    return [UNKNOWN if token in (OTHER, SELF) else token for token in ids[1:-1]] or [UNKNOWN]")
    return "\n".join(lines) + "\n"


def literal(text: str) -> str:
    """Return a text as a literal of Python that cannot end a block of code in Markdown."""
    return ascii(text).replace("`", "\\x60")


def _results(run: Run) -> Iterator[str]:
    """Yield the section of the test split's results, if there are any."""
    path = run.folder / "evaluation" / "test" / "metrics.json"
    if not path.is_file():
        return
    metrics: dict[str, Any] = read_json(path)
    values = {name: metric_value(metrics.get(name)) for name in METRICS}
    rows = [(metric_display(name), value) for name, value in values.items() if value is not None]
    lines = [f"| {escape_markdown(display.label)} | {display.format(value)} |" for display, value in rows]
    yield "## Results\n\n" + "\n".join(["| test split, by dialog-seq2seq | |", "| --- | --- |", *lines])
