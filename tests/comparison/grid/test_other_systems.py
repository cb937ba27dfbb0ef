"""Systems of other frameworks: seeds, plain text, references, and the contexts that they answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_encoder import save_encoder

from dialog.cli import main
from dialog.comparison.grid.contenders import parse_files, read_statement, split_arguments
from dialog.comparison.grid.folder import Contender, Grid
from dialog.comparison.grid.responses import file_metrics, identity
from dialog.config.compose import compose
from dialog.config.schema import to_dict
from dialog.errors import UserError
from dialog.escaping import escape_latex
from dialog.metrics.meaning.bert_score import BertScore

Compare = Callable[..., tuple[int, str]]
DIALOGUES = 12
TURNS = 3


def examples() -> list[dict[str, Any]]:
    return [
        {
            "id": f"d{dialogue}#{turn}",
            "dialogue_id": f"d{dialogue}",
            "context": [f"what is {dialogue} and {turn} ?"],
            "references": [f"it is {dialogue} and then {turn} of course ."],
        }
        for dialogue in range(DIALOGUES)
        for turn in range(TURNS)
    ]


def answers(shift: int) -> list[dict[str, Any]]:
    return [
        {
            "id": row["id"],
            "response": " ".join(row["references"][0].split()[: 3 + place % (3 + shift)]),
            "nll": 10.0 + (place * 7 + shift) % 5,
        }
        for place, row in enumerate(examples())
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path.name


def results(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return content


def test_files_are_told_from_settings() -> None:
    arguments = ["a=x.jsonl,y.jsonl", "data.path=z.jsonl", "seed=3", "q.txt", "recipe", "~logger"]
    names, overrides = split_arguments(arguments)
    assert names == ["a=x.jsonl,y.jsonl", "q.txt", "recipe"]
    assert overrides == ["data.path=z.jsonl", "seed=3", "~logger"]
    assert parse_files("a=x.jsonl,y.jsonl") == ("a", [Path("x.jsonl"), Path("y.jsonl")])
    for argument in ("../a=x.jsonl", "a/b=x.jsonl", "x.jsonl,y.jsonl"):
        with pytest.raises(UserError):
            parse_files(argument)


def test_files_are_the_seeds_of_a_system(compare: Compare, tmp_path: Path) -> None:
    """Three runs against two: intervals over seeds and dialogues, as for recipes."""
    write(tmp_path / "test.jsonl", examples())
    mine = ",".join(write(tmp_path / f"a{seed}.jsonl", answers(seed)) for seed in range(3))
    theirs = ",".join(write(tmp_path / f"b{seed}.jsonl", answers(seed + 9)) for seed in range(2))
    arguments = [f"mine={mine}", f"theirs={theirs}", "--references", "test.jsonl"]
    assert compare(*arguments, "--output", "out")[0] == 0
    compared = results(tmp_path / "out")
    assert [[run["seed"] for run in model["runs"]] for model in compared["models"]] == [
        [1, 2, 3],
        [1, 2],
    ]
    assert [model["summary"]["all"]["bits_per_byte"]["n"] for model in compared["models"]] == [3, 2]
    assert compared["models"][0]["summary"]["all"]["f1"]["std"] > 0
    assert compared["dialogues"] == DIALOGUES
    tested = next(row for row in compared["differences"] if row["metric"] == "bits_per_byte")
    assert "dialogues" in tested["method"]
    assert compared["parity"] == []
    assert compare(*arguments, "--output", "out")[0] == 0, "the same command continues"
    check_paper(compare, tmp_path / "out", tmp_path / "paper")
    code, line = compare(f"mine={mine}", f"theirs={mine.split(',')[0]},a0.jsonl", *arguments[2:])
    assert (code, "has the content of another" in line) == (2, True), line


def check_paper(compare: Compare, folder: Path, paper: Path) -> None:
    """The comparison is written as a paper, once."""
    pytest.importorskip("matplotlib")
    assert compare(str(folder), "--paper", str(paper))[0] == 0
    assert not [path.name for path in paper.iterdir() if path.name.startswith(".")]
    verdict = (paper / "verdict.tex").read_text(encoding="utf-8")
    assert escape_latex(results(folder)["verdict"].splitlines()[0]) in verdict
    methods = (paper / "methods.tex").read_text(encoding="utf-8")
    assert "mine (responses of 3 runs) and theirs (responses of 2 runs)" in methods
    assert "secondary hypotheses by Holm" in methods
    assert "PyTorch" not in methods, "the systems ran elsewhere"
    charts = {path.suffix for path in (paper / "figures").glob("differences*")}
    assert charts == {".pdf", ".csv", ".tex"}
    assert not (paper / "hyperparameters.tex").exists()
    before = {path: path.read_bytes() for path in paper.rglob("*") if path.is_file()}
    code, line = compare(str(folder), "--paper", str(paper))
    assert (code, "exists" in line) == (2, True), line
    assert before == {path: path.read_bytes() for path in paper.rglob("*") if path.is_file()}


QUESTIONS = """
import torch
from torchmetrics import Metric

class Questions(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("sums", torch.zeros(2))

    def update(self, responses):
        self.sums += torch.tensor([sum("?" in text for text in responses), len(responses)])

    def compute(self):
        return self.sums[0] / self.sums[1]
"""


def test_files_are_measured_by_metrics_of_the_caller(
    compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shipped ones with a model in a folder, and one of the caller, which no folder may import."""
    encoder = save_encoder(tmp_path / "encoder")
    mauve = SimpleNamespace(compute_mauve=lambda **_: SimpleNamespace(mauve=0.25))
    monkeypatch.setitem(sys.modules, "mauve", mauve)
    (tmp_path / "own_questions.py").write_text(QUESTIONS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path / "test.jsonl", examples())
    for name, shift in (("a.jsonl", 0), ("b.jsonl", 2)):
        write(tmp_path / name, answers(shift))
    inputs = ["a.jsonl", "b.jsonl", "--references", "test.jsonl", "--output", "out"]
    models = f"{{name: bert_score, model: {encoder}}}, {{name: mauve, model: {encoder}}}"
    own = ["--metrics", "own_questions.Questions"]
    assert compare(*inputs, "--metrics", models, *own)[0] == 0
    compared = results(tmp_path / "out")
    first = compared["models"][0]["runs"][0]["metrics"]
    rows = zip(answers(0), examples(), strict=True)
    pairs = [(answer["response"], example["references"][0]) for answer, example in rows]
    expected = BertScore(str(encoder)).statistics_of(*map(list, zip(*pairs, strict=True)))
    assert first["bert_score"] == pytest.approx(100 * float(expected[:, 0].mean()), rel=1e-5)
    assert (first["mauve"], first["Questions"]) == (25.0, 0.0)
    tested = {row["metric"] for row in compared["differences"] if row["p"] is not None}
    assert "bert_score" in tested
    assert not {"mauve", "Questions"} & {row["metric"] for row in compared["differences"]}

    code, line = compare("out")
    assert (code, "own_questions.Questions" in line) == (2, True), (
        "the folder alone imports nothing"
    )
    assert compare("out", "--metrics", models, *own)[0] == 0
    code, line = compare("out", "--metrics", "chrf")
    assert (code, "other metrics" in line) == (2, True), line
    for metrics in ("bert_score", "{model: x}", "{name: x", "no_such.Metric"):
        code, line = compare(*inputs[:-1], "new", "--metrics", metrics)
        assert (code, "--metrics" in line) == (2, True), line
    assert not (tmp_path / "new").exists()


def test_files_have_the_metrics_of_the_first_recipe(tmp_path: Path) -> None:
    recipes = [
        to_dict(compose("quickstart/transformer", [f"metrics={metrics}"]).recipe)
        for metrics in ("[{name: distinct, n: 3}]", "[]")
    ]
    file = Contender("theirs", "responses", "hash", hashes=("hash",), files=("a.jsonl",))
    trained = [Contender(f"m{n}", "runs", f"h{n}", recipe) for n, recipe in enumerate(recipes)]
    mine = Grid(tmp_path, (file, *trained), ())
    none = Grid(tmp_path, (file, *trained[::-1]), ())
    assert list(file_metrics(mine)) == [{"name": "distinct", "n": 3}]
    assert list(file_metrics(none)) == []
    (cell,) = [cell for cell in mine.cells() if cell.contender is file]
    assert identity(cell, mine) != identity(cell, none), "it is measured again"


def test_translations_need_no_context_and_no_ids(compare: Compare, tmp_path: Path) -> None:
    """Two texts against two references; the second run of the command uses the kept test set."""
    import sacrebleu as library

    columns = [[f"the house {n} is {word} ." for n in range(20)] for word in ("big", "large")]
    columns += [["" if n == 3 else f"house {n} is {word} ." for n in range(20)] for word in "xy"]
    for name, lines in zip(("ref", "ref2", "one", "two"), columns, strict=True):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, line = compare("one.txt", "two.txt", "--output", "out")
    assert (code, "--references" in line) == (2, True), line
    assert (
        compare("one.txt", "two.txt", "--references", "ref.txt,ref2.txt", "--output", "out")[0] == 0
    )
    compared = results(tmp_path / "out")
    scores = [model["runs"][0]["metrics"]["sacrebleu"] for model in compared["models"]]
    expected = library.corpus_bleu(columns[2], columns[:2], force=True).score
    assert scores[0]["score"] == pytest.approx(expected)
    assert "nrefs:2" in scores[0]["signature"]
    rows = (tmp_path / "out/runs/one/evaluation/test/responses.jsonl").read_text(encoding="utf-8")
    first = json.loads(rows.splitlines()[0])
    assert (first["id"], first["context"]) == ("1", [])
    assert "dialogue_id" not in first, "which dialogue a line belongs to is not known"
    assert "Without dialogue ids" in compared["verdict"]
    (tmp_path / "ref.txt").unlink()
    assert compare("out")[0] == 0
    (tmp_path / "short.txt").write_text("one line\n", encoding="utf-8")
    code, line = compare("out", "short.txt")
    assert (code, "short.txt: has 1 lines" in line) == (2, True), line


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"ref.txt": b""}, "ref.txt: is empty"),
        ({"ref.txt": b"a\n\xff\n"}, "ref.txt:2: not UTF-8"),
        ({"ref.txt": b"a\n", "more.txt": b"a\nb\n"}, "more.txt: has 2 lines"),
        ({"ref.jsonl": b'{"references": []}\n'}, "ref.jsonl:1: references is []"),
        ({"ref.jsonl": b'{"references": ["\\ud800"]}\n'}, "ref.jsonl:1: references is"),
        ({"ref.jsonl": b'{"reference": "a", "id": 2}\n{"reference": "b"}\n'}, "also in line 1"),
        ({"no.jsonl": b"", "ref.txt": b"a\n"}, "give one file of JSON lines"),
    ],
)
def test_references_that_cannot_be_used(
    compare: Compare, tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    code, line = compare("a.txt", "b.txt", "--references", ",".join(files), "--output", "out")
    assert (code, message in line) == (2, True), line
    assert not (tmp_path / "out").exists()


def test_contexts_are_those_that_compare_expects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., Any], compare: Compare
) -> None:
    (tmp_path / "lstm.yaml").write_text(tiny("lstm").yaml(), encoding="utf-8")

    def contexts(file: str, *options: str) -> list[dict[str, Any]]:
        words = ["dialog", "contexts", "lstm.yaml", *options, "--output", file]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return [json.loads(line) for line in (tmp_path / file).read_text("utf-8").splitlines()]

    rows = contexts("test.jsonl")
    names = list(dict.fromkeys(row["dialogue_id"] for row in rows))
    first = [row for row in rows if row["dialogue_id"] in names[:2]]
    assert contexts("first.jsonl", "--dialogues", "2") == first
    assert list(rows[0]) == ["id", "dialogue_id", "context", "references"]
    for name in ("one", "two"):
        write(
            tmp_path / f"{name}.jsonl",
            [{"id": row["id"], "response": f"{name} {row['context'][-1]}"} for row in rows],
        )
    code, line = compare("one.jsonl", "two.jsonl", "--references", "test.jsonl", "--output", "out")
    assert (code, results(tmp_path / "out")["examples"]) == (0, len(rows)), line


def test_statements_of_systems(tmp_path: Path) -> None:
    own = Path(write(tmp_path / "a.jsonl", answers(1)))
    (tmp_path / "system.yaml").write_text("parameters: 7\ndata: mine\n", encoding="utf-8")
    assert read_statement(tmp_path / own) == {"parameters": 7, "data": "mine"}
    (tmp_path / "a.system.yaml").write_text("budget: 1 epoch\n", encoding="utf-8")
    assert read_statement(tmp_path / own) == {"budget": "1 epoch"}
    for text in ("parameters: many\n", "colour: red\n", "budget: [1]\n", "parameters: true\n"):
        (tmp_path / "a.system.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"a\.system\.yaml:1"):
            read_statement(tmp_path / own)


TORCH_FREE = """
import sys
import dialog.comparison.compare, dialog.comparison.grid.plan
from dialog.cli import main
assert "scipy" not in sys.modules, "it takes longer to import than all else that a start needs"
sys.argv = ["dialog", "compare", "a.jsonl", "b.jsonl", "--references", "t.jsonl", "--output", "o"]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print([name for name in ("torch", "torchmetrics", "lightning", "wandb") if name in sys.modules])
"""


def test_files_are_compared_without_torch(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", examples())
    for place, name in enumerate("ab"):
        write(tmp_path / f"{name}.jsonl", answers(place))
    done = subprocess.run(
        [sys.executable, "-c", TORCH_FREE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


MINE = """
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    print(json.dumps({"id": row["id"], "response": row["context"][-1], "nll": 9.5}), flush=True)
"""


def test_programs_are_contenders(
    compare: Compare, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One fails and the other is kept; what a folder alone names is not run."""
    write(tmp_path / "test.jsonl", examples())
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    write(tmp_path / "theirs.jsonl", answers(1))
    command = f"{sys.executable} -S -E mine.py"
    arguments = ["theirs.jsonl", "--references", "test.jsonl", "--output", "out"]
    (tmp_path / "bad.py").write_text(MINE.replace("-1", "7"), encoding="utf-8")
    systems = ["--system", f"mine: {command}", "--system", f"bad: {sys.executable} -S bad.py"]
    code, line = compare(*arguments, *systems)
    assert (code, "bad: ended with exit code 1 (IndexError" in line) == (2, True), line
    assert "--system 'mine:" in line.rpartition("continue with: ")[2]
    models = {model["name"]: model for model in results(tmp_path / "out")["models"]}
    assert models.keys() == {"theirs", "mine"}
    assert "bits_per_byte" in models["mine"]["summary"]["all"]
    assert models["mine"]["system"]["sessions"][0]["answers"] == len(examples())
    code, line = compare("out")
    assert (code, "the comparison folder has its command" in line) == (2, True), line
    (tmp_path / "bad.py").write_text(MINE, encoding="utf-8")
    assert compare("out", "--system", f"bad: {sys.executable} -S bad.py")[0] == 0
    assert len(results(tmp_path / "out")["models"]) == 3
    (tmp_path / "silent.py").write_text(MINE.replace(', "nll": 9.5', ""), encoding="utf-8")
    silent = ["--system", f"silent: {sys.executable} -S silent.py"]
    assert compare(*arguments[:-1], "overlap", *silent)[0] == 0
    assert results(tmp_path / "overlap")["primary"] == "f1", "it gives no likelihood"
    assert json.loads((tmp_path / "overlap/grid.json").read_text())["primary"] == "f1"
    requested = [*arguments[:-1], "bits", "--primary", "bits_per_byte"]
    code, line = compare(*requested, *silent)
    assert (code, "silent" in line, "--primary f1" in line) == (2, True, True), line
    assert not Path("bits/results.json").exists()
    plain = [{"id": row["id"], "response": row["response"]} for row in answers(2)]
    code, line = compare("bits", write(tmp_path / "plain.jsonl", plain))
    assert (code, "plain.jsonl: has no nll" in line) == (2, True), "the request is kept"
    assert compare("bits", "--primary", "f1")[0] == 0, "the responses are kept"
    assert results(tmp_path / "bits")["primary"] == "f1"
    code, line = compare("out", "--system", "bad: true")
    assert (code, "has another bad" in line) == (2, True), line
    assert "py has changed" not in caplog.text
    (tmp_path / "bad.py").write_text(f"{MINE}# edited", encoding="utf-8")
    assert compare("out", "--system", f"bad: {sys.executable} -S bad.py")[0] == 0
    assert "bad.py has changed" in caplog.text
    grid = (tmp_path / "out/grid.json").read_text()
    forged = grid.replace("-S bad.py", "-S other.py")
    assert forged != grid
    (tmp_path / "out/grid.json").write_text(forged)
    code, line = compare("out", "--system", f"bad: {sys.executable} -S bad.py")
    assert (code, "has another bad" in line) == (2, True), "the command is not that of its hash"
    code, line = compare("--system", "a: true", "--system", "b: true", "--output", "new")
    assert (code, "--references" in line) == (2, True), line


def test_control_characters_are_counted_in_one_line(
    compare: Compare, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are measured as they are, and the report has them escaped."""
    write(tmp_path / "t.jsonl", examples())
    wild = [{**row, "response": f"\x1b[31m{row['response']}\x00"} for row in answers(1)[:2]]
    write(tmp_path / "a.jsonl", [*wild, *answers(1)[2:]])
    write(tmp_path / "b.jsonl", answers(2))
    assert compare("a.jsonl", "b.jsonl", "--references", "t.jsonl", "--output", "out")[0] == 0
    warned = [line for line in caplog.messages if "control characters" in line]
    assert [("a: 2 of" in line, "d0#0" in line) for line in warned] == [(True, True)]
    for name in ("report.html", "report.md", "results.json"):
        assert not {"\x1b", "\x00"} & set((tmp_path / "out" / name).read_text(encoding="utf-8"))


def test_dialogues_of_one_response_have_ids(compare: Compare, tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", [{**row, "dialogue_id": row["id"]} for row in examples()])
    for shift, name in enumerate(("tiny-a", "tiny-b")):
        write(tmp_path / f"{name}.jsonl", answers(shift))
    files = ("tiny-a.jsonl", "tiny-b.jsonl", "--references", "t.jsonl", "--output", "out")
    assert compare(*files)[0] == 0
    assert "Without dialogue ids" not in results(tmp_path / "out")["verdict"]
    report = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    assert "Without dialogue ids" not in report
    assert "tiny-b" in report, "names of files are not shortened"


def test_primary_metric_and_looks_are_declared_before_results(compare: Compare) -> None:
    files = {"one": answers(0), "two": answers(1), "plain": answers(2)}
    for name, rows in files.items():
        kept = [
            {k: v for k, v in row.items() if k != "nll"} if name == "plain" else row for row in rows
        ]
        lines = [
            {**example, "reference": example["references"][0], **row}
            for example, row in zip(examples(), kept, strict=True)
        ]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pair = ("one.jsonl", "two.jsonl", "--output", "out")
    assert compare(*pair, "--primary", "length_mean")[0] == 2
    assert not Path("out").exists()
    assert compare(*pair, "--primary", "f1", "--looks", "2")[0] == 0
    grid = json.loads(Path("out/grid.json").read_text())
    assert (grid["primary"], grid["looks"]) == ("f1", 2)
    written = results(Path("out"))
    assert (written["primary"], written["statistics"]["looks"]) == ("f1", 2)
    for options in (("--primary", "chrf"), ("--looks", "3")):
        code, line = compare("out", *options)
        assert (code, " ".join(options) in line) == (2, True), line
    assert compare("out", "plain.jsonl")[0] == 0
    looks = [json.loads(line) for line in Path("out/looks.jsonl").read_text().splitlines()]
    assert [{(test["a"], test["b"]) for test in look["tests"]} for look in looks] == [
        {("one", "two")},
        {("one", "plain"), ("two", "plain")},
    ]
    assert results(Path("out"))["looks"] == looks
    code, line = compare(
        "one.jsonl", "plain.jsonl", "--output", "bits", "--primary", "bits_per_byte"
    )
    assert (code, "plain.jsonl" in line) == (2, True), line
    assert compare("one.jsonl", "plain.jsonl", "--output", "overlap")[0] == 0
    assert json.loads(Path("overlap/grid.json").read_text())["primary"] == "f1"
