"""The only room that knows everyone: a recipe goes in, objects come out; a run folder is loaded."""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.components import build, named
from dialog.data.corpora import CORPORA, Corpus
from dialog.errors import UserError
from dialog.recipe import Composed, Model, Recipe, compose, to_yaml

if TYPE_CHECKING:
    import torch

    from dialog.data.store import Store
    from dialog.data.tokenizer import Tokenizer
    from dialog.generation.responder import Candidate, Responder
    from dialog.models.seq2seq import Seq2Seq
    from dialog.training.module import DialogModule

# ------------------------------------------------------------------ data


def build_corpus(recipe: Recipe) -> Corpus:
    """The corpus of a recipe; its folder is ``data.path``, else ``$DIALOG_DATA/<corpus>``."""
    name, _ = named(recipe.data.corpus)
    path = Path(recipe.data.path) if recipe.data.path else None
    if path is None and (root := os.environ.get("DIALOG_DATA")):
        path = Path(root) / name
    return build(CORPORA, recipe.data.corpus, path=path)


def cache() -> Path:
    """Where prepared data lie: ``$DIALOG_CACHE``, else the user's cache folder."""
    if chosen := os.environ.get("DIALOG_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dialog"


def prepare_data(recipe: Recipe, progress: Callable[[str], None] | None = None) -> Path:
    """Tokenizer and token stores of a recipe's corpus: the folder that holds them, built if need be."""
    from dialog.data.prepare import prepare

    data = recipe.data
    return prepare(
        build_corpus(recipe),
        corpus_component=data.corpus,
        tokenizer=data.tokenizer,
        context_turns=data.context_turns,
        first_turns=data.first_turns,
        max_source=data.max_source,
        max_target=data.max_target,
        root=cache(),
        progress=progress,
    )


# ------------------------------------------------------------------ network


def build_model(model: Model, vocabulary: int) -> Seq2Seq:
    """The network of a recipe's ``model`` section, for a vocabulary of so many tokens."""
    from dialog.data.tokenizer import PAD
    from dialog.models.seq2seq import Seq2Seq

    return Seq2Seq(
        vocabulary,
        padding=PAD,
        embedding_size=model.embedding_size,
        encoder=model.encoder,
        decoder=model.decoder,
        tie_embeddings=model.tie_embeddings,
        dropout=model.dropout,
    )


def build_module(recipe: Recipe, vocabulary: int) -> DialogModule:
    """The LightningModule of a recipe, its weights drawn from the recipe's seed."""
    from lightning.pytorch import seed_everything

    from dialog.data.tokenizer import PAD
    from dialog.training.module import DialogModule

    seed_everything(recipe.seed, verbose=False)
    model = build_model(recipe.model, vocabulary)
    return DialogModule(model, padding=PAD, optimizer=recipe.optimizer, loss=recipe.model.loss)


# ------------------------------------------------------------------ training


@dataclass(frozen=True)
class Trained:
    """What a training run leaves."""

    folder: Path
    seconds: float
    steps: int
    target_tokens: int


def new_folder(name: str, output: Path | None, root: str = "runs") -> Path:
    """A new folder, ``output`` or ``<root>/<name>/<time>-<random>``; what exists is never written over."""
    folder = output or Path(root) / name / f"{datetime.now():%Y%m%d-%H%M%S}-{random.SystemRandom().randrange(16**4):04x}"
    try:
        folder.mkdir(parents=True, exist_ok=False)
    except FileExistsError as error:
        raise UserError(f"{folder} exists; choose another --output") from error
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); choose another --output") from error
    return folder


def train(composed: Composed, output: Path | None = None, *, quiet: bool = False) -> Trained:
    """Train a recipe into a new run folder that is complete in itself.

    Raises:
        UserError: before the folder is made, when the recipe, its corpus or a component cannot be served.
    """
    import torch
    from lightning.pytorch.loggers import WandbLogger
    from safetensors.torch import save_model

    from dialog.data.datamodule import DialogDataModule
    from dialog.data.store import Store
    from dialog.training import trainer as training
    from dialog.training.callbacks.attention import AttentionRecorder
    from dialog.training.loggers import build_loggers, close
    from dialog.training.precision import fitting

    training.quiet()
    recipe = composed.recipe
    precision = fitting(recipe.trainer.precision, recipe.trainer.accelerator)
    recipe = replace(recipe, trainer=replace(recipe.trainer, precision=precision))
    say = (lambda line: None) if quiet else _say
    data = prepare_data(recipe, say)
    store = Store(data, "validation")
    module = build_module(recipe, len(store.tokenizer))
    module.configure_optimizers()  # a wrong component is refused before anything is written
    folder = new_folder(composed.name, output)
    (folder / "recipe.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    _write_json(folder / "environment.json", environment(recipe.seed, store))
    store.tokenizer.save(folder / "tokenizer.json")
    loggers = build_loggers(recipe.logger, folder)
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_hyperparams(asdict(recipe))
    trainer = training.build_trainer(
        asdict(recipe.trainer),
        folder=folder,
        loggers=loggers,
        every_n_steps=recipe.checkpoint.every_n_steps,
        patience=recipe.checkpoint.patience,
        callbacks=[AttentionRecorder(folder, store)],
    )
    began = time.monotonic()
    try:
        trainer.fit(module, DialogDataModule(data, batch_tokens=recipe.data.batch_tokens, seed=recipe.seed))
    except SystemExit as error:  # Lightning exits with 1 at a Ctrl-C
        raise KeyboardInterrupt from error if trainer.interrupted else error
    finally:
        close(loggers)
    seconds = time.monotonic() - began
    if trainer.is_global_zero:
        best = folder / "checkpoints" / "best.ckpt"
        if not best.is_file():
            raise UserError(f"{folder}: no validation took place, so there are no best weights; train longer")
        module.load_state_dict(torch.load(best, map_location="cpu", weights_only=True)["state_dict"])
        save_model(module.model, str(folder / "model.safetensors"))
    trained = Trained(folder, seconds, trainer.global_step, module.target_tokens)
    _write_json(folder / "summary.json", {key: value for key, value in asdict(trained).items() if key != "folder"})
    return trained


def environment(seed: int, store: Store) -> dict[str, Any]:
    """Versions, hardware, git state, seed and data of a run: nothing of the user's, nothing secret."""
    import torch

    packages = ("torch", "lightning", "tokenizers", "omegaconf", "numpy", "wandb")
    return {
        "dialog": version("dialog-seq2seq"),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "cpu": _processor(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "git": _git(),
        "seed": seed,
        "data": store.manifest["fingerprint"],
        "tokenizer": store.tokenizer.fingerprint,
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git() -> str:
    """The commit of the working folder, with a mark where it is not clean."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found.stdout.strip() or "unknown"


def _say(line: str) -> None:
    import sys

    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# ------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Reply:
    """A response, and what else the search found."""

    text: str
    candidates: list[Candidate]


@dataclass(frozen=True)
class Run:
    """A trained network, ready to answer."""

    folder: Path
    name: str
    recipe: Recipe
    model: Seq2Seq
    tokenizer: Tokenizer

    @property
    def responder(self) -> Responder:
        """The network with its tokenizer and limits."""
        from dialog.generation.responder import Responder

        limits = self.recipe.generation
        return Responder(
            self.model, self.tokenizer, self.recipe.data.max_source, limits.min_length, limits.max_length
        )

    def respond(self, context: Sequence[str], search: Mapping[str, Any] | None = None) -> Reply:
        """Answer the last of the turns, in which two speakers alternate."""
        return self.respond_batch([context], search)[0]

    def respond_batch(
        self, contexts: Sequence[Sequence[str]], search: Mapping[str, Any] | None = None
    ) -> list[Reply]:
        """Answer several contexts at a time."""
        found = self.responder.respond(contexts, dict(search or self.recipe.generation.search))
        return [Reply(each.text, [each]) for each in found]

    def attention(self, context: Sequence[str], response: str) -> dict[str, Any]:
        """The maps of every layer and head while the response is said, as ``dialog attention`` writes them."""
        from dialog.analysis.maps import as_json, attention_maps
        from dialog.data.layout import encode_example
        from dialog.data.tokenizer import PAD
        from dialog.generation.responder import as_example

        import torch

        example = as_example(context, response)
        pair = encode_example(self.tokenizer, example, max_source=self.recipe.data.max_source, max_target=None)
        device = next(self.model.parameters()).device
        source, target = (torch.tensor([ids], device=device) for ids in pair)
        maps = attention_maps(self.model, source, source != PAD, target[:, :-1])
        shown, said = ([self.tokenizer.label(token) for token in ids] for ids in (pair[0], pair[1][1:]))
        return as_json(maps, 0, shown, said)

    def score(self, context: Sequence[str], response: str) -> float:
        """Log p(response | context) in nats, end token included."""
        from dialog.data.batching import collate
        from dialog.data.layout import encode_example
        from dialog.evaluation.evaluate import Evaluator
        from dialog.generation.responder import as_example

        example = as_example(context, response)
        pair = encode_example(self.tokenizer, example, max_source=self.recipe.data.max_source, max_target=None)
        evaluator = Evaluator(self.responder, self.recipe.generation.search, 1)
        return -evaluator.score(collate([pair], [0]))[0].nll


def load(
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    device: str = "cpu",
    precision: str = "float32",
    trust: bool = False,
) -> Run:
    """Load a run folder: its recipe (with overrides), tokenizer and best weights; no code of the folder is run.

    Raises:
        UserError: not a run folder, unfinished, damaged, or made of parts that a recipe imports (unless ``trust``).
    """
    import torch
    from safetensors.torch import load_model

    from dialog.data.tokenizer import Tokenizer

    folder = Path(folder)
    if not (folder / "recipe.yaml").is_file():
        raise UserError(f"{folder} is not a run folder: it has no recipe.yaml")
    for name in ("tokenizer.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: no {name}; has the training come to its end?")
    recipe = compose(str(folder / "recipe.yaml"), overrides).recipe
    if not trust:
        refuse_imports(recipe, folder)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    model = build_model(recipe.model, len(tokenizer))
    try:
        load_model(model, str(folder / "model.safetensors"))
    except Exception as error:  # safetensors raises its own type, torch RuntimeError
        raise UserError(f"{folder / 'model.safetensors'}: does not fit the recipe: {_line(error)}") from error
    dtype: torch.dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[precision]
    name = folder.parent.as_posix().removeprefix("runs/")
    return Run(folder, name, recipe, model.to(device, dtype).eval(), tokenizer)


def refuse_imports(recipe: Recipe, folder: Path) -> None:
    """A recipe that comes with a run folder names no code to import."""
    for dotted in imported_names(asdict(recipe)):
        raise UserError(f"{folder}: its recipe imports {dotted!r}; load it with --trust if you trust its author")


def imported_names(tree: object) -> list[str]:
    """Every component's name that has a dot in it."""
    if isinstance(tree, dict):
        own = [tree["name"]] if isinstance(tree.get("name"), str) and "." in tree["name"] else []
        return own + [found for value in tree.values() for found in imported_names(value)]
    if isinstance(tree, list):
        return [found for value in tree for found in imported_names(value)]
    return []


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


# ------------------------------------------------------------------ evaluation


def evaluate(run: Run, split: str, *, quiet: bool = False) -> dict[str, Any]:
    """Score and answer a split of the run's corpus into ``evaluation/<split>/``; the metrics."""
    from collections import Counter

    from tqdm import tqdm

    from dialog.analysis.alignment import AlignmentCounts
    from dialog.data.examples import examples
    from dialog.evaluation.evaluate import Evaluation, Evaluator

    data = run.recipe.data
    dialogues = build_corpus(run.recipe).dialogues(split)
    stream = examples(dialogues, context_turns=data.context_turns, first_turns=data.first_turns, counts=Counter())
    evaluator = Evaluator(run.responder, run.recipe.generation.search, data.batch_tokens)
    aligned, evaluation = AlignmentCounts(), Evaluation()
    folder = run.folder / "evaluation" / split
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / ".responses.partial"
    with tqdm(desc=f"evaluating {split}", unit="example", disable=True if quiet else None, leave=False) as bar:
        with partial.open("w", encoding="utf-8") as file:
            for each in evaluator.answers(stream, aligned, bar.update):
                evaluation.add(each)
                file.write(json.dumps(each.row(), ensure_ascii=False) + "\n")
    metrics = {**evaluation.metrics(split), **aligned.metrics()}
    partial.replace(folder / "responses.jsonl")
    _write_json(folder / "metrics.json", metrics)
    return metrics


def with_seed(composed: Composed, seed: int) -> Composed:
    """The same recipe with another seed."""
    return replace(composed, recipe=replace(composed.recipe, seed=seed))
