"""Weights & Biases."""

from __future__ import annotations

import logging
import netrc
import os
import shutil
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lightning.pytorch.loggers import Logger
from PIL.Image import Image

from dialog.escaping import one_line
from dialog.training.loggers.background import TableRows

if TYPE_CHECKING:
    from wandb import Run

MODES = ("auto", "online", "offline", "disabled")
ARTIFACTS = ("off", "best")
BEST_VALUES = {
    "validation/loss": "min",
    "validation/perplexity": "min",
    "validation/bits_per_byte": "min",
    "validation/token_accuracy": "max",
}
"""Value of a curve that the table of runs shows in place of the last one."""

PUBLIC_SERVERS = ("api.wandb.ai", "api.forge.coreweave.com")
"""Default servers of ``wandb login``: before wandb 0.31, and since."""

CONNECT_SECONDS = 10
"""Time to connect, after which a run continues offline."""

FINISH_SECONDS = 40
"""Time to upload what is left at the end of a run; it stays on disk as well."""

log = logging.getLogger("dialog")


class WandbTracker(Logger):
    """Weights & Biases in the run folder; offline without an account, and then without network
    access.

    ``mode`` auto is ``WANDB_MODE`` if set, else online if the user is logged in, else offline.
    Without a connection within 10 seconds, the run continues offline. A resumed run keeps its id,
    which is read from the names of its folders, so it is one run in Weights & Biases.

    Args:
        folder: The run folder.
        project: Project in Weights & Biases.
        run_name: Name of the run; by default its recipe, in a comparison with the seed, in a sweep
            with the trial.
        group: Group of runs; by default the folder of the comparison or sweep.
        tags: Tags of the run; by default the decoder and the corpus.
        mode: auto, online, offline or disabled.
        self_attention: Whether a run also records maps of self-attention; cross-attention is always
            recorded.
        artifact: best (at the end, log recipe, environment.json, tokenizer, best weights and their
            manifest as a model artifact) or off.
    """

    def __init__(
        self,
        folder: Path,
        *,
        project: str = "dialog",
        run_name: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        mode: str = "auto",
        self_attention: bool = False,
        artifact: str = "off",
    ) -> None:
        super().__init__()
        if artifact not in ARTIFACTS:
            raise ValueError(f"unknown artifact {artifact!r}; use one of {', '.join(ARTIFACTS)}")
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}; use one of {', '.join(MODES)}")
        self.folder = folder
        self.artifact = artifact
        self.mode = wandb_mode() if mode == "auto" else mode
        log.info("wandb is %s%s", self.mode, self.advice if self.mode == "offline" else "")
        self.options: dict[str, Any] = {
            "project": project,
            "name": run_name,
            "group": group,
            "tags": list(tags) or None,
        }
        self._run: Run | None = None

    @property
    def name(self) -> str:
        """Name of the service."""
        return "Weights & Biases"

    @property
    def version(self) -> str:
        """Empty: a run folder is one run."""
        return ""

    @property
    def advice(self) -> str:
        """Command that uploads what is on disk."""
        return f"; to upload later: wandb sync {self.folder}/wandb/*run-*"

    @property
    def run(self) -> Run:
        """The run, started at the first use: online if that is the mode and the server answers,
        else offline.
        """
        if self._run is None:
            self._run = self._connected() if self.mode == "online" else self._started(self.mode)
            self._run.define_metric("trainer/global_step")
            self._run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
            for key, summary in BEST_VALUES.items():
                self._run.define_metric(
                    key, step_metric="trainer/global_step", step_sync=True, summary=summary
                )
        return self._run

    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object
    ) -> None:
        """Log the recipe."""
        self.run.config.update(params, allow_val_change=True)  # type: ignore[no-untyped-call]

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Log numbers at an optimizer step."""
        self.run.log({**metrics, "trainer/global_step": step})

    def log_images(self, images: Mapping[str, Image], step: int) -> None:
        """Log images at an optimizer step."""
        import wandb

        self.log_metrics({key: wandb.Image(image) for key, image in images.items()}, step)

    def log_table(self, key: str, columns: list[str], data: TableRows, step: int) -> None:
        """Log rows of values."""
        import wandb

        self.log_metrics(
            {key: wandb.Table(columns=[*columns], data=[[*row] for row in data])}, step
        )

    def log_page(self, key: str, page: str, step: int) -> None:
        """Log a self-contained page as it is."""
        import wandb

        self.log_metrics({key: wandb.Html(page, inject=False, data_is_not_path=True)}, step)

    def log_model(self, files: Sequence[Path]) -> None:
        """Log the files of a run as an artifact, if ``artifact`` is best."""
        import wandb

        if self.artifact == "off" or not files:
            return
        model = wandb.Artifact(f"model-{self.run.id}", type="model")
        for file in files:
            model.add_file(str(file))
        self.run.log_artifact(model, aliases=["best"])

    def alert(self, title: str, text: str) -> None:
        """Send a message to the owner of the run, who may have left it alone."""
        self.run.alert(title=title, text=text, level="ERROR")

    def finalize(self, status: str) -> None:
        """Finish the run, so that the next one in this process is separate; after a failure, stop
        the service.
        """
        import wandb

        if status == "success":
            if self._run is not None:
                self._run.finish()
        else:
            wandb.teardown()

    def _connected(self) -> Run:
        """Start a run online; if that fails, offline, with a warning."""
        import wandb

        existing = self._folders()
        try:
            return self._started("online")
        except Exception as error:
            with suppress(Exception):
                wandb.teardown()  # its service would refuse to start a run of the same id
            for failed in self._folders() - existing:
                shutil.rmtree(failed, ignore_errors=True)
            reason = one_line(str(error).partition("\n")[0])
            log.warning("Wandb cannot be reached (%s); continuing offline%s", reason, self.advice)
            return self._started("offline")

    def _started(self, mode: str) -> Run:
        """Start a run; its folder is named by second and id, so that of a resumed run waits for the
        next second.
        """
        if mode != "online":  # wandb reads this from the environment only
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        # artifacts are staged here, not in the home folder
        os.environ["WANDB_DATA_DIR"] = str(self.folder / "wandb")
        import wandb

        newest = max((path.name.partition("run-")[2] for path in self._folders()), default="")
        while newest.startswith(time.strftime("%Y%m%d_%H%M%S")):
            time.sleep(0.05)
        return wandb.init(
            **self.options,
            id=newest.rpartition("-")[2] or None,
            resume="allow",
            dir=str(self.folder),
            mode=mode,  # type: ignore[arg-type]  # checked, or wandb's own
            settings={
                "console": "off",
                "x_disable_meta": True,
                "silent": True,
                "init_timeout": CONNECT_SECONDS,
                "login_timeout": CONNECT_SECONDS,
                "finish_timeout": FINISH_SECONDS,
                "finish_timeout_raises": True,
            },
        )

    def _folders(self) -> set[Path]:
        return set(self.folder.glob("wandb/*run-*-*"))


def wandb_mode() -> str:
    """Return online if the user is logged in, else offline, unless ``WANDB_MODE`` is set."""
    if mode := os.environ.get("WANDB_MODE"):
        return mode
    if os.environ.get("WANDB_API_KEY"):
        return "online"
    try:
        hosts = netrc.netrc(os.environ.get("NETRC")).hosts
    except (OSError, netrc.NetrcParseError):
        hosts = {}
    private_server = urlsplit(os.environ.get("WANDB_BASE_URL", "")).netloc
    return (
        "offline"
        if hosts.keys().isdisjoint([private_server] if private_server else PUBLIC_SERVERS)
        else "online"
    )
