"""Export a run: write the folder of a format, open it with the format's engine, and compare it with
the run.
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from dialog.atomic import LOCK, naming, partial_folder, publish, write_json, write_text
from dialog.config.components import lookup
from dialog.errors import RunError, UserError, install
from dialog.export.card import card
from dialog.export.format import Format
from dialog.export.formats import FORMATS, FormatEntry
from dialog.export.parity import Parity, measure_parity
from dialog.paths import check_new, display_name, make_folder
from dialog.runs.run import Run
from dialog.version import __version__

log = logging.getLogger("dialog")
CARD = "README.md"
PARITY = "parity.json"
CODE_FORMAT = "huggingface"
"""The only format that may need code of this package to be opened."""


def find_format(name: str, *, with_code: bool = False) -> Format:
    """Return a format whose packages are installed; ``with_code`` as in `export`.

    Raises:
        UserError: an unknown format, a missing package, or a format that needs no code.
    """
    entry = lookup(FORMATS, name, "--format")
    if with_code and name != CODE_FORMAT:
        raise UserError(
            f"--with-code: --format {name} needs no code; it is for --format {CODE_FORMAT}"
        )
    check_packages(name, entry)
    chosen: Format = getattr(import_module(f"dialog.export.formats.{name}"), entry.kind)()
    chosen.with_code = with_code
    return chosen


def check_packages(name: str, entry: FormatEntry) -> None:
    """Check that the packages of a format are installed.

    Raises:
        UserError: one is missing; the message names the extra.
    """
    for package in entry.packages:
        if find_spec(package) is None:
            raise UserError(f"--format {name} needs {package}; run {install(entry.extra)}")


def export(run: Run, name: str, output: Path, *, with_code: bool = False) -> Parity:
    """Export a run to a new folder.

    The folder has the network in the format, `tokenizer.json`, a card `README.md` with code that
    generates a response, and `parity.json`: how far the engine's log-probabilities and greedy
    responses differ from the run's. The folder appears when it is complete; an export that differs
    by more than rounding is not kept. ``with_code`` adds the code that the folder needs to be
    opened without this package.

    Raises:
        UserError: an unknown format, a missing package, a run that cannot be exported, or an
            existing folder.
        RunError: the exported model differs from the run.
    """
    chosen = find_format(name, with_code=with_code)
    check_run(run)
    chosen.check(run.model)
    check_new(output)
    if not output.parent.is_dir():
        make_folder(output.parent)
    with partial_folder(output) as partial, naming(output):
        log.info("writing %s", output)
        chosen.write(run, partial)
        chosen.write_tokenizer(run, partial)
        log.info("comparing %s with the run", chosen.engine)
        parity = measure_parity(
            run.model, chosen.load(partial), max_source=run.recipe.data.max_source
        )
        if not parity.holds:
            raise RunError(
                f"{output}: not written, since {chosen.engine} does not compute what the run does:"
                f" {parity}"
            )
        packages = {"dialog-seq2seq": __version__}
        packages |= {package: version(package) for package in ("torch", *FORMATS[name].packages)}
        write_text(partial / CARD, card(run, chosen, str(parity)))
        origin = {"run": display_name(run.folder), "format": name, "packages": packages}
        write_json(partial / PARITY, {**origin, **parity.to_dict()})
        (partial / LOCK).unlink()
        publish(partial, output)
    return parity


def check_run(run: Run) -> None:
    """Check that a run is one network as it was trained.

    Raises:
        UserError: an ensemble, another precision, or removed heads.
    """
    if len(run.model.members) > 1:
        raise UserError("an ensemble cannot be exported; export each of its runs")
    if run.precision != "float32":
        raise UserError(f"a run in {run.precision} cannot be exported; load it in float32")
    if run.ablated:
        raise UserError(
            "a run without some of its heads cannot be exported; load it without ablate"
        )
