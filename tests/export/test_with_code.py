"""Folders for transformers with code: they need no dialog; and what the card claims about each
folder.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard

from dialog.data.tokenizers.tokenizer import EOS, SELF
from dialog.errors import UserError
from dialog.export import parity
from dialog.export.card import card, program, requirements
from dialog.export.export import export, find_format
from dialog.export.format import CODE
from dialog.export.formats.ctranslate2 import CTranslate2
from dialog.export.formats.huggingface import HuggingFaceFormat, code
from dialog.export.formats.huggingface.single_file import single_file
from dialog.export.metadata import corpus_values
from dialog.runs.run import Run

Runs = Callable[..., Run]
LSTM = {"name": "lstm", "size": 24}
MODERN = {
    **{
        "name": "transformer",
        "layers": 2,
        "heads": 4,
        "key_value_heads": 2,
        "feed_forward_size": 48,
    },
    **{"norm": "rms_norm", "activation": "swiglu", "positions": {"name": "rotary"}},
}
PLAIN = {"name": "transformer", "layers": 1, "heads": 2, "feed_forward_size": 32}
NETWORKS: dict[str, dict[str, Any]] = {
    "lstm": {},
    "gru": {
        "encoder": {"name": "gru", "size": 20},
        "decoder": {
            "name": "gru_luong",
            "size": 20,
            "attention": {"name": "dot"},
            "bridge": {"name": "zero"},
        },
        "head": {"name": "pointer_generator"},
    },
    "hred": {"encoder": {"name": "hierarchical", "tokens": LSTM, "turns": LSTM}},
    "modern": {"encoder": MODERN, "decoder": MODERN, "tie_embeddings": "output"},
    "native": {"encoder": PLAIN, "decoder": PLAIN},
}
CONTEXTS = [
    ["Hi </s> !"],
    ["a", "Fine <other> . And you ?"],
    ["so much to say " * 30, "yes", "and no"],
]
SOURCES = [[SELF, 9, 10, 4, 12, EOS], [EOS]]
STRANGER = """
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "dialog":
            raise ImportError("dialog is not installed here")
sys.meta_path.insert(0, Blocked())
import torch
from transformers import AutoModelForSeq2SeqLM, pipeline
torch.set_num_threads(1)
results = {}
for folder in sys.argv[3:]:
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    rows = [model.generate(torch.tensor([source])) for source in json.loads(sys.argv[1])]
    chat = pipeline("text-generation", model=folder, trust_remote_code=True)
    chats = json.loads(sys.argv[2])
    outputs = [output[0]["generated_text"] for output in [*map(chat, chats), *chat(chats, batch_size=2)]]
    assert all(output[:-1] == messages for output, messages in zip(outputs, chats * 2))
    [message] = chat(chats[0][0]["content"])
    replies = [output[-1]["content"] for output in outputs]
    results[folder] = {"ids": [row[0, 1:].tolist() for row in rows], "texts": [*replies, message["generated_text"]]}
print(json.dumps(results))
"""
"""Program of someone without this package, who trusts the code of the folders."""


def messages(context: list[str]) -> list[dict[str, str]]:
    roles = ("assistant" if place % 2 == 0 else "user" for place in range(len(context), 0, -1))
    return [{"role": role, "content": text} for role, text in zip(roles, context, strict=True)]


def coding() -> HuggingFaceFormat:
    chosen = find_format("huggingface", with_code=True)
    assert isinstance(chosen, HuggingFaceFormat)
    return chosen


@pytest.mark.endurance
def test_folders_are_opened_without_dialog(random_run: Runs, tmp_path: Path) -> None:
    expected, greedy = {}, {"name": "greedy"}
    for name, network in NETWORKS.items():
        run, folder = random_run(**network), tmp_path / name
        run = replace(run, recipe=replace(run.recipe, data=replace(run.recipe.data, max_source=40)))
        folder.mkdir()
        coding().write(run, folder)
        coding().write_tokenizer(run, folder)
        replies = [
            run.responder.generate(torch.tensor([source]), greedy)[0][0] for source in SOURCES
        ]
        texts = [reply.text for reply in run.respond_batch(CONTEXTS, greedy)]
        expected[str(folder)] = {
            "ids": [list(reply.ids) for reply in replies],
            "texts": [*texts, *texts, texts[0]],
        }
    environment = {
        **os.environ,
        "HF_MODULES_CACHE": str(tmp_path / "modules"),
        "HF_HUB_OFFLINE": "1",
    }
    arguments = [
        json.dumps(SOURCES),
        json.dumps([messages(context) for context in CONTEXTS]),
        *expected,
    ]
    command = [sys.executable, "-I", "-c", STRANGER, *arguments]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert json.loads(result.stdout) == expected


@pytest.mark.parametrize("name", ["gru", "modern"])
def test_the_code_computes_what_the_network_does(
    random_run: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(parity, "GREEDY_LENGTH", 8)
    run = random_run(**NETWORKS[name])
    coding().write(run, tmp_path)
    loaded = coding().load(tmp_path)
    assert type(loaded.model).__module__.endswith("modeling_dialog")
    assert parity.measure_parity(run.model, loaded, max_source=20).holds


def test_the_code_imports_torch_and_transformers_only() -> None:
    tree = ast.parse(code(native=False))
    packages = {
        (node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(
            "."
        )[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert packages - set(sys.stdlib_module_names) == {"torch", "transformers"}
    pipeline_alone = code(native=True)
    assert "Seq2Seq(" not in pipeline_alone
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(names) == len(set(names)) > 60
    assert {"DialogConfig", "DialogForConditionalGeneration", "Seq2Seq"} <= set(names)


def test_equal_names_of_several_modules_are_told_apart() -> None:
    text = single_file({"dialog.models.seq2seq": ["Seq2Seq"]}, "Seq2Seq")
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "seq2seq.py", "exec"), names)
    assert names["LSTM_of_private_operators"].startswith("aten::lstm")
    assert names["LSTM_of_cells"]().name == "lstm"


def test_code_of_others_is_not_run(random_run: Runs, tmp_path: Path) -> None:
    coding().write(random_run(), tmp_path)
    with (tmp_path / CODE).open("a", encoding="utf-8") as file:
        file.write("raise SystemExit\n")
    with pytest.raises(UserError, match=rf"{CODE}: not the code of this version"):
        coding().load(tmp_path)


@pytest.mark.parametrize("name", ["ctranslate2", "onnx"])
def test_other_formats_need_no_code(name: str) -> None:
    with pytest.raises(UserError, match=f"--with-code: --format {name} needs no code"):
        find_format(name, with_code=True)


# ------------------------------------------------------------------ the card


def test_the_card_states_the_code_and_its_program_runs(
    trained_run: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, folder = trained_run("lstm"), tmp_path / "folder"
    export(run, "huggingface", folder, with_code=True)
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert f"`{CODE}`" in text
    assert ModelCard(text).data.library_name == "transformers"
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (
        config["auto_map"]["AutoModelForSeq2SeqLM"]
        == "modeling_dialog.DialogForConditionalGeneration"
    )
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    names: dict[str, Any] = {}
    source = program(run, coding())
    assert requirements(source) == ["tokenizers", "torch", "transformers"]
    exec(source, names)
    sys.modules.pop("modeling_dialog")
    assert names["response"] == list(
        run.respond(names["context"], {"name": "greedy"}).candidates[0].ids
    )


def test_only_folders_that_transformers_opens_name_it(trained_run: Runs) -> None:
    """An LSTM without code needs this package; a plain Transformer is a class of transformers."""
    lstm, transformer = trained_run("lstm"), trained_run("transformer")
    cases = [(lstm, HuggingFaceFormat()), (lstm, coding()), (transformer, HuggingFaceFormat())]
    libraries = [ModelCard(card(run, chosen, "equal")).data.library_name for run, chosen in cases]
    assert libraries == ["dialog-seq2seq", "transformers", "transformers"]
    assert ModelCard(card(transformer, CTranslate2(), "equal")).data.library_name == "ctranslate2"


def test_metadata_has_the_corpus_and_the_results(trained_run: Runs) -> None:
    run = trained_run("transformer")
    data = ModelCard(card(run, CTranslate2(), "equal")).data
    assert (data.pipeline_tag, data.license, data.language, data.datasets) == (
        "text-generation",
        "apache-2.0",
        ["en"],
        None,
    )
    results = {result.metric_type: result for result in data.eval_results}
    assert {result.dataset_split for result in results.values()} == {"test"}
    metrics = json.loads((run.folder / "evaluation/test/metrics.json").read_text(encoding="utf-8"))
    for name in ("bits_per_byte", "f1"):
        assert results[name].metric_value == pytest.approx(metrics[name], abs=1e-5)
    daily = replace(
        run,
        recipe=replace(run.recipe, data=replace(run.recipe.data, corpus={"name": "dailydialog"})),
    )
    data = ModelCard(card(daily, CTranslate2(), "equal")).data
    assert (data.license, data.language, data.datasets) == (
        "cc-by-nc-sa-4.0",
        ["en"],
        ["dailydialog"],
    )


def test_licence_and_languages_are_those_of_all_corpora() -> None:
    assert corpus_values(["crosswoz", "kdconv"]) == {
        **{"datasets": ["crosswoz", "kdconv"], "language": ["zh"], "license": "apache-2.0"}
    }
    assert "license" not in corpus_values(["crosswoz", "multi30k"])
    assert corpus_values(["multi30k"])["language"] == ["de", "en"]
    assert corpus_values(["multi30k"])["license"] == "other"
    assert corpus_values(["multi30k"])["license_name"] == "none-stated-for-research"
    assert corpus_values(["jsonl"]) == corpus_values([]) == {}
