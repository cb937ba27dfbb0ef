"""``dialog serve``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dialog.cli.completion import settings
from dialog.cli.options import ablate_option, ensemble_option, precision_option, trust_option
from dialog.config.compose import split_overrides
from dialog.config.trust import Trust
from dialog.errors import UserError, install

EXTRA = ("h11", "pydantic", "starlette", "uvicorn")
"""Packages of the extra `serve`."""
OPENINGS = 8
"""First lines of each run that the page offers with --examples."""


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument(
    "more", nargs=-1, metavar="[RUN]... [KEY=VALUE]...", shell_complete=settings, type=str
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="0 takes any free port.",
)
@click.option(
    "--keep-alive",
    type=click.IntRange(1, 3600),
    default=75,  # proxies and load balancers usually reuse a connection for 60 s
    show_default=True,
    metavar="SECONDS",
    help="Time in which a client or proxy can reuse a connection; longer than its own.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 1024),
    default=32,
    show_default=True,
    help="Responses of a run that are generated together.",
)
@click.option(
    "--queue",
    type=click.IntRange(1, 10**6),
    default=64,
    show_default=True,
    help="Requests that may wait for a run; further ones get status 429.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(0.1, 3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time for a response, or for the first piece of a stream; then it gets status 503.",
)
@click.option(
    "--votes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Append blind votes of the web page to FILE, for compare --ratings; by default none.",
)
@click.option(
    "--examples",
    is_flag=True,
    help="Offer first lines of the validation split on the web page: everyone who opens it can"
    " read them.",
)
@click.option(
    "--log", is_flag=True, help="Write each request to the standard error, without its texts."
)
@click.option(
    "--engine",
    type=click.Choice(["torch", "onnx", "ctranslate2"]),
    default="torch",
    show_default=True,
    help="What computes the responses: onnx exports each RUN first and compares it (a CPU).",
)
@ensemble_option
@precision_option
@ablate_option
@trust_option
def serve(
    run: Path,
    more: tuple[str, ...],
    host: str,
    port: int,
    keep_alive: int,
    batch: int,
    queue: int,
    deadline: float,
    votes: Path | None,
    examples: bool,
    log: bool,
    engine: str,
    ensemble: tuple[Path, ...],
    precision: str,
    ablate: tuple[str, ...],
    trust: Trust,
) -> None:
    """Serve RUNs over HTTP: OpenAI's chat format, attention maps, and a web page to talk to them,
    look inside and compare.

    \b
    POST /v1/chat/completions  responses in OpenAI's format, also streamed
    POST /attention            {"context": [TEXT, ...], "response": TEXT}: JSON, or "format": "html"
    POST /votes                a vote on two responses, with --votes
    GET  /                     web page: chats with all runs side by side, attention, blind votes
    GET  /runs                 facts about the runs
    GET  /v1/models, /healthz, /readyz, /metrics, /openapi.json

    generation=CHOICE selects the search; the temperature and top_p of a request select sampling. If
    the environment variable DIALOG_TOKEN is set, requests must send its value as a bearer token; if
    not, --host must be an address that only this machine can reach. Needs the extra `serve`.

    Example: python -m dialog serve runs/quickstart/transformer/...
    """  # noqa: D301 - click reads the character \b
    try:
        from dialog.serving.engine import LoadLimits
        from dialog.serving.server import TOKEN
        from dialog.serving.server import serve as serve_runs
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise UserError(f"serve needs {package}; run {install('serve')}") from error
    from dialog.runs.load import load

    if engine != "torch":
        from dialog.export.engine import check_engine, with_engine

        check_engine(engine)  # before the weights are read
    names, overrides = split_overrides(more)
    folders = [run, *map(Path, names)]
    if ensemble and len(folders) > 1:
        raise UserError("--ensemble: serve a single RUN, of which the others become a part")
    loaded = [
        load(
            [folder, *ensemble],
            overrides=overrides,
            device="auto" if engine == "torch" else "cpu",
            precision=precision,
            trust=trust,
            ablate=ablate,
        )
        for folder in folders
    ]
    if engine != "torch":
        loaded = [with_engine(one, engine) for one in loaded]
    serve_runs(
        loaded,
        host,
        port,
        os.environ.get(TOKEN, ""),
        keep_alive=keep_alive,
        limits=LoadLimits(batch, queue, deadline),
        votes=votes,
        openings=OPENINGS if examples else 0,
        logs=log,
    )
