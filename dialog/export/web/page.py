"""Export one or two runs to a web page: a folder for any web server, or one file that opens from
disk.

    index.html                     the page; its script is `page.js`
    *.js                           search, tokenizer and engine, which the page runs in workers
    onnxruntime-web.*.gz           the engine, see `runtime.py`
    model-1.*.gz, model-2.*.gz     networks, weights and description of each model

One file has the same parts as text inside of `index.html`.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dialog.atomic import LOCK, naming, partial_folder, publish, write_json, write_text
from dialog.errors import UserError
from dialog.escaping import escape_markdown
from dialog.export.export import CARD, PARITY, check_packages
from dialog.export.formats import FORMATS
from dialog.export.web.model import WebModel, check_page, web_model
from dialog.export.web.runtime import LICENCE, NAME, SCRIPT, VERSION, WASM, runtime_files
from dialog.export.web.weights import FLOAT16, compressed
from dialog.paths import check_new, make_folder
from dialog.report.page import chat_sources, joined, render_page
from dialog.runs.facts import labelled_facts
from dialog.runs.run import Run, run_names
from dialog.version import __version__

log = logging.getLogger("dialog")
FORMAT = "web"
PAGE = "index.html"
PACKAGE = "dialog.export.web"
WORKER = ("tokenizer.js", "search.js", "engine.js", "worker.js")
MOST_RUNS = 2
MIT = """\
Copyright (c) Microsoft Corporation

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and \
associated documentation files (the "Software"), to deal in the Software without restriction, \
including without limitation the rights to use, copy, modify, merge, publish, distribute, \
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is \
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or \
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT \
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND \
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, \
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT \
OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def export_page(
    runs: Sequence[Run], output: Path, *, weights: str = FLOAT16, single_file: bool = False
) -> list[WebModel]:
    """Export runs to a new folder, or with ``single_file`` to one new HTML file.

    The weights are rounded to the numbers that ``weights`` names, and computed in float32. Each
    model is compared with its run with the same rounded weights, as `export` does; the output
    appears when it is complete.

    Raises:
        UserError: more than two runs, a missing package, a run that a page cannot hold, an existing
            output, or the engine cannot be downloaded.
        RunError: a model of the page differs from its run.
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise UserError(f"--format {FORMAT}: {len(runs)} runs; give one or two")
    check_packages(FORMAT, FORMATS["onnx"])
    check_new(output)
    for run in runs:
        check_page(run)
    runtime = runtime_files()
    models = []
    for run, name in zip(runs, run_names(runs), strict=True):
        log.info("translating %s and comparing it with the run", name)
        models.append(web_model(run, name, weights))
    texts = {name: (files(PACKAGE) / name).read_text(encoding="utf-8") for name in WORKER}
    binaries = {
        f"{NAME}.mjs.gz": compressed(runtime[SCRIPT]),
        f"{NAME}.wasm.gz": compressed(runtime[WASM]),
    }
    for number, model in enumerate(models, start=1):
        binaries |= {f"model-{number}.{part}": data for part, data in model.files.items()}
    log.info("writing %s", output)
    if not output.parent.is_dir():
        make_folder(output.parent)
    if single_file:
        write_text(output, page(models, texts, binaries))
        return models
    with partial_folder(output) as partial, naming(output):
        write_text(partial / PAGE, page(models, {}, {}))
        for name, text in texts.items():
            write_text(partial / name, text)
        for name, data in binaries.items():
            (partial / name).write_bytes(data)
        write_text(partial / CARD, card(models))
        write_json(partial / PARITY, report(models))
        (partial / LOCK).unlink()
        publish(partial, output)
    return models


def page(models: Sequence[WebModel], texts: dict[str, str], binaries: dict[str, bytes]) -> str:
    """Return the page, with these files inside; without any it reads those beside it."""
    encoded = {name: base64.b64encode(data).decode() for name, data in binaries.items()}
    values: dict[str, Any] = {
        "names": [model.name for model in models],
        "models": [
            {
                "name": model.name,
                "facts": labelled_facts(model.facts),
                "parity": comparison(model),
            }
            for model in models
        ],
        "version": __version__,
        "runtime": {"name": NAME, "version": VERSION, "licence": LICENCE, "text": MIT},
        "texts": [(name, Markup(text)) for name, text in texts.items()],
        "binaries": encoded.items(),
    }
    (chat_script, chat_style) = chat_sources()
    return render_page(
        PACKAGE,
        "page.html.j2",
        values,
        script=chat_script + joined(PACKAGE, ["page.js"]),
        style=chat_style + joined(PACKAGE, ["page.css"]),
        connects=not binaries,
        computes=True,
    )


def comparison(model: WebModel) -> str:
    """Return the result of the comparison with the run as a sentence."""
    return f"Compared with the run with the same weights: {model.parity}."


def card(models: Sequence[WebModel]) -> str:
    """Return the card of a folder as Markdown; texts of the runs cannot become links, tags or
    code.
    """
    parts = [
        f"# {' and '.join(escape_markdown(model.name) for model in models)}",
        (
            f"A web page in which the models answer, exported by dialog-seq2seq {__version__}. Put"
            " the folder on any web server, or run `python -m http.server` in it and open"
            f" http://localhost:8000. After loading, `{PAGE}` sends nothing and needs no server."
        ),
        (
            f"The models are computed by {NAME} {VERSION} ({LICENCE} licence, its text is in the"
            " page). They write like their corpora and have no other knowledge: read replies before"
            " you show them to people."
        ),
        "## Models",
        *(
            f"* {escape_markdown(model.name)}: "
            + ", ".join(
                f"{label} {escape_markdown(fact)}" for label, fact in labelled_facts(model.facts)
            )
            + f". {comparison(model)}"
            for model in models
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(model: WebModel) -> str:
    """Return the facts of a model as Markdown."""
    labelled = labelled_facts(model.facts)
    return ", ".join(f"{label} {escape_markdown(fact)}" for label, fact in labelled)


def report(models: Sequence[WebModel]) -> dict[str, Any]:
    """Return the parity report of a page."""
    return {
        "format": FORMAT,
        "packages": {"dialog-seq2seq": __version__, NAME: VERSION},
        "models": [{**model.facts, **model.parity.to_dict()} for model in models],
    }
