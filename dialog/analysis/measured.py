"""Responses of one system with the statistics of each: from an evaluation, or from any
responses.jsonl.

`statistics.safetensors` has one float64 array [N, size] per additive metric, in the order of
responses.jsonl, and `leaked` (uint8 [N]) if the training split is known. Its metadata has the
components of the metrics as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.atomic import replacing
from dialog.config.components import Component
from dialog.config.trust import NO_TRUST, Trust
from dialog.errors import UserError
from dialog.escaping import is_unicode, to_json
from dialog.json_files import read_json_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dialog.metrics.measurement import Measurement

RESPONSES = "responses.jsonl"
STATISTICS = "statistics.safetensors"
LEAKED = "leaked"
METADATA = "metrics"
FIELDS = {"id": str, "context": list, "reference": str, "response": str}
"""Fields of every line of a responses.jsonl, and their types; the id is the number of the line if
no line has one.
"""


@dataclass(frozen=True)
class Measured:
    """The responses of one system to N examples, and what each contributes to the metrics.

    Args:
        rows: Lines of responses.jsonl.
        measurement: Additive metrics with the statistics of each response, and metrics of item
            counts with its items.
        leaked: Mask [N] of the examples whose dialogue also occurs in the training split; None if
            that is unknown.
    """

    rows: Sequence[Mapping[str, Any]]
    measurement: Measurement
    leaked: NDArray[np.bool_] | None = None

    @cached_property
    def dialogues(self) -> NDArray[np.int64]:
        """Index of the dialogue of each example, in order of appearance [N]; its own without
        `dialogue_id`.
        """
        import numpy as np

        numbers: dict[str, int] = {}
        names = (str(row.get("dialogue_id", row["id"])) for row in self.rows)
        return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of contexts and references, as in metrics.json."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(example_bytes(row))
        return digest.hexdigest()


def example_bytes(row: Mapping[str, Any]) -> bytes:
    """Return context and references of an example, as hashed by the fingerprint of a test set."""
    texts = (*row["context"], *all_references(row))
    return b"".join(text.encode() + b"\0" for text in texts) + b"\1"


def all_references(row: Mapping[str, Any]) -> list[str]:
    """Return all references of an example."""
    return list(row.get("references", [row["reference"]]))


def read_measured(path: Path, *, trust: Trust = NO_TRUST) -> Measured:
    """Read an evaluation folder, or a responses.jsonl of any system.

    What statistics.safetensors lacks is computed, for the metrics that the fields of
    responses.jsonl allow; the measurement has the reasons for the others in `left_out`.

    Args:
        path: Folder of an evaluation, or file.
        trust: Which metrics of other packages may be imported; the others are left out.

    Raises:
        UserError: a file is missing, damaged or invalid, with the line.
    """
    import numpy as np

    from dialog.metrics import detect_language
    from dialog.metrics.measurement import Measurement
    from dialog.metrics.scores.additive import SHARES, AdditiveScore
    from dialog.metrics.scores.counts import CountScore

    rows = read_responses(path / RESPONSES if path.is_dir() else path)
    arrays, components, language = (
        read_statistics(path / STATISTICS, len(rows)) if path.is_dir() else ({}, [], "")
    )
    added = [component for component in components if trust.permits(component["name"])]
    language = language or detect_language(row["reference"] for row in rows[:4096])
    metrics = metrics_of(trust.allow(added), language)
    of_responses = {
        key: metric
        for key, metric in metrics.items()
        if isinstance(metric, AdditiveScore | CountScore)
    }
    measurement = Measurement(of_responses, statistics=arrays)
    for key in SHARES:
        if key in arrays:
            measurement.give(key, arrays[key])
    measurement.add(rows)
    return Measured(
        rows, measurement, arrays[LEAKED].astype(np.bool_) if LEAKED in arrays else None
    )


def metrics_of(components: Sequence[Component], language: str) -> Mapping[str, Any]:
    """Build the standard metrics and others; without torch if all are standard ones."""
    from dialog.metrics.scores.family import SCORES, build_scores

    if all(component["name"] in SCORES for component in components):
        return build_scores(components, language=language)
    from dialog.metrics import build_metrics

    return build_metrics(components, language=language)


def read_responses(path: Path) -> list[dict[str, Any]]:
    """Read a responses.jsonl with the fields `FIELDS`, each id once; an integer is read as text.

    Raises:
        UserError: the file is missing, damaged or empty, or a line is invalid.
    """
    rows: list[dict[str, Any]] = []
    lines: dict[str, int] = {}
    keys: Collection[str] = ()
    for number, line in enumerate(read_json_lines(path), start=1):
        where = f"{path}:{number}"
        row = numbered(line, number)
        if missing := [field for field in FIELDS if field not in row]:
            raise UserError(f"{where}: no {missing[0]}; each line needs {', '.join(FIELDS)}")
        for field, kind in FIELDS.items():
            value = row[field]
            texts = value if kind is list and isinstance(value, list) else [value]
            if not isinstance(value, kind) or not all(isinstance(text, str) for text in texts):
                expected = "a list of strings" if kind is list else "a string"
                raise UserError(f"{where}: {field} is {to_json(value)[:60]}; give {expected}")
            if not all(map(is_unicode, texts)):
                raise UserError(f"{where}: lone surrogate (half a character) in {field}")
        first = lines.setdefault(row["id"], number)
        if first != number:
            raise UserError(
                f"{where}: id {row['id']!r} is also in line {first}; give each example a"
                " different id"
            )
        keys = keys or line.keys()
        if line.keys() != keys:
            field = min(line.keys() ^ keys)
            raise UserError(
                f"{where}: {field!r} is missing here or in line 1; give all lines the same fields"
            )
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: no responses")
    return rows


def numbered(line: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a line with a text as its id: an integer as text, and the number of the line in place
    of a missing one.
    """
    name = line.get("id")
    if name is None:
        return {**line, "id": str(number)}
    is_integer = isinstance(name, int) and not isinstance(name, bool)
    return {**line, "id": str(name)} if is_integer else dict(line)


def write_statistics(
    path: Path,
    measurement: Measurement,
    components: Mapping[str, Component],
    language: str,
    leaked: NDArray[np.bool_] | None = None,
) -> None:
    """Write the statistics of each response, the components of their metrics, and the mask of
    leaked examples [N].
    """
    import numpy as np
    from safetensors.numpy import save

    arrays = dict(measurement.statistics())
    metadata = {
        "language": language,
        "metrics": {key: components[key] for key in arrays if key in components},
    }
    masks = {} if leaked is None else {LEAKED: leaked.astype(np.uint8)}
    with replacing(path) as new:
        new.write_bytes(save({**arrays, **masks}, {METADATA: to_json(metadata)}))


def read_statistics(path: Path, responses: int) -> tuple[dict[str, Any], list[Component], str]:
    """Read the arrays by name, the components of the metrics and the language; all empty if the
    file is missing.

    Raises:
        UserError: the file is damaged, or of another number of responses.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return {}, [], ""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            metadata = json.loads((file.metadata() or {})[METADATA])
        components = list(metadata["metrics"].values())
        language = metadata["language"]
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: damaged ({error}); evaluate the run again") from error
    if any(len(array) != responses for array in arrays.values()):
        raise UserError(
            f"{path}: not of the {responses} responses in {RESPONSES}; evaluate the run again"
        )
    return arrays, components, language
