"""Format the JSON lines of benchmarks/training.py as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

COLUMNS = (
    "system",
    "precision",
    "target tokens/s",
    "source + target tokens/s",
    "ms a step",
    "target tokens a step",
    "padding",
    "GFLOP/s",
    "share of GEMM",
    "peak MiB",
    "parameters",
)
VOCABULARY = 8000


class Row(NamedTuple):
    """One run; length 0 stands for DailyDialog."""

    system: str
    family: str
    precision: str
    length: int
    round: int


def as_markdown(lines: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> str:
    """Format a table per family, a table by length, the failures, and the hardware and versions."""
    parts = []
    good = [line for line in lines if "figures" in line]
    for family in dict.fromkeys(line["row"]["family"] for line in good):
        of_family = [line for line in good if line["row"]["family"] == family]
        rows = list(_main([line for line in of_family if not line["row"]["length"]], titles))
        if rows:
            parts.append(f"### {family}\n\n{grid(COLUMNS, rows)}")
        at_lengths = [line for line in of_family if line["row"]["length"]]
        if at_lengths:
            parts.append(
                f"### {family}: ms a step (peak MiB) by source"
                f" length\n\n{_by_length(at_lengths, titles)}"
            )
    failed = {
        f"- {titles[line['row']['system']]}, {_case(line)}: {line['error']}": 1
        for line in lines
        if "error" in line
    }
    if failed:
        parts.append("Not measured:\n\n" + "\n".join(failed))
    return "\n\n".join([*parts, *_circumstances(good)])


def _main(lines: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> Iterator[list[str]]:
    for (system, precision), group in grouped(lines, "system", "precision").items():
        steps = [step for line in group for step in line["figures"]["each_step"]]
        rates = [step["target_tokens"] / step["seconds"] for step in steps]
        all_rates = [
            (step["source_tokens"] + step["target_tokens"]) / step["seconds"] for step in steps
        ]
        speed = median(flops(group[0]["row"], step) / step["seconds"] for step in steps) / 1e9
        # the same network as dialog's, whose products were counted there
        uncounted = system == "loop"
        bound = max(line["gemm"] for line in lines if line["row"]["precision"] == precision) / 1e9
        real = sum(s["source_tokens"] + s["target_tokens"] for s in steps)
        places = sum(s["places"] for s in steps)
        yield [
            titles[system],
            precision,
            f"{median(rates):,.0f}",
            f"{median(all_rates):,.0f}",
            f"{1000 * median(step['seconds'] for step in steps):,.0f}",
            f"{sum(step['target_tokens'] for step in steps) / len(steps):,.0f}",
            f"{1 - real / places:.0%}",
            "–" if uncounted else f"{speed:,.0f}",
            "–" if uncounted else f"{speed / bound:.0%}",
            f"{max(line['figures']['memory_bytes'] for line in group) / 2**20:,.0f}",
            f"{group[0]['figures']['parameters']:,}",
        ]


def _by_length(lines: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> str:
    lengths = sorted({line["row"]["length"] for line in lines})
    examples = {line["row"]["length"]: line["figures"]["each_step"][0]["rows"] for line in lines}
    rows = []
    for (system, precision), group in grouped(lines, "system", "precision").items():
        cells = {line["row"]["length"]: _cell(line["figures"]) for line in group}
        rows.append([titles[system], precision, *(cells.get(length, "–") for length in lengths)])
    return grid(
        (
            "system",
            "precision",
            *(f"{length:,} ({examples[length]} examples)" for length in lengths),
        ),
        rows,
    )


def _cell(figures: Mapping[str, Any]) -> str:
    seconds = median(step["seconds"] for step in figures["each_step"])
    return f"{1000 * seconds:,.0f} ({figures['memory_bytes'] / 2**20:,.0f})"


def _case(line: Mapping[str, Any]) -> str:
    row = line["row"]
    return f"{row['family']}, {row['precision']}" + (
        f", source length {row['length']:,}" if row["length"] else ""
    )


def _circumstances(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not lines:
        return
    environments = [line["environment"] for line in lines]
    machines = sorted(
        {
            f"{here['cpu']}, {here['cores']} cores, {here['threads']} threads"
            for here in environments
        }
    )
    versions = sorted(
        {
            f"dialog {here['dialog']} ({here['git']}), torch {here['torch']}, Python"
            f" {here['python']}"
            for here in environments
        }
    )
    days = sorted({line["time"][:10] for line in lines})
    peaks = ", ".join(
        f"{max(line['gemm'] for line in group) / 1e9:,.0f} GFLOP/s in {precision}"
        for (precision,), group in grouped(lines, "precision").items()
    )
    steps = sorted({len(line["figures"]["each_step"]) for line in lines})
    yield (
        f"{'; '.join(machines)}. {'; '.join(versions)}. {', '.join(days)}. Matrix products reach"
        f" {peaks}."
    )
    yield f"Medians over the steps of all rounds ({' or '.join(map(str, steps))} a round)."


def grouped(
    lines: Iterable[Mapping[str, Any]], *keys: str
) -> dict[tuple[str, ...], list[Mapping[str, Any]]]:
    """Group lines by the values of their rows under the keys."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault(tuple(line["row"][key] for key in keys), []).append(line)
    return groups


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table with numbers aligned right."""
    lines = [head, ["---", "---", *["---:"] * (len(head) - 2)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# ------------------------------------------------------------------ FLOPs


def flops(row: Mapping[str, Any], step: Mapping[str, float]) -> float:
    """Return the FLOPs of a training step over real tokens: three times the forward pass; counted
    live for dialog.

    Others use one formula for the common sizes, so extra or avoided work of a system does not
    count.
    """
    if "flops" in step:
        return step["flops"]
    source = step["source_tokens"]
    target = step["target_tokens"]
    rows = step["rows"]
    if row["family"] == "transformer":
        return 3 * _transformer(source, target, rows)
    return 3 * _lstm(
        source, target, rows, 2 if row["family"] == "lstm2" else 1, attends=row["system"] != "bare"
    )


def _lstm(source: float, target: float, rows: float, layers: int, *, attends: bool) -> float:
    reading = 2 * (2 * 4 * 256 * (256 + 256)) + (layers - 1) * 2 * (2 * 4 * 256 * (512 + 256))
    saying = (
        2 * 4 * 512 * (256 + 512 + 512 * attends)
        + (layers - 1) * 2 * 4 * 512 * 1024
        + 2 * 512 * VOCABULARY
    )
    keys, query, joined, a_pair = (
        attends * cost for cost in (2 * 512 * 512, 2 * 512 * 512, 2 * 1024 * 512, 4 * 512)
    )
    return source * (reading + keys) + target * (saying + query + joined + a_pair * source / rows)


def _transformer(source: float, target: float, rows: float) -> float:
    size = 256
    inner = 1024
    layers = 3
    reading = (
        layers
        * 2
        * (4 * size * size + 2 * size * inner + 2 * size * size + 2 * size * source / rows)
    )
    mixed = 2 * size * (target + source) / rows
    saying = layers * 2 * (6 * size * size + 2 * size * inner + mixed) + 2 * size * VOCABULARY
    return source * reading + target * saying
