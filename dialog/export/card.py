"""Card of an exported folder: what the model is, code that generates a response, parity, and
results.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from dialog.data.store.layout import ROLES
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF, UNK
from dialog.escaping import escape_markdown
from dialog.export.format import CODE, Format
from dialog.export.metadata import front_matter, test_results
from dialog.models.seq2seq import count_parameters
from dialog.paths import display_name
from dialog.report.formats.metrics import metric_display
from dialog.runs.run import Run
from dialog.version import __version__

CODE_NOTE = (
    f"By choice of its exporter the folder has code, `{CODE}`: the parts of dialog-seq2seq that"
    " transformers lacks. transformers runs it only if you allow remote code; read it first. Its"
    ' pipeline answers chats: `pipeline("text-generation", model=FOLDER, ...)([{"role": "user",'
    ' "content": "Hi !"}])`.'
)
PROGRAM = Template("""\
from tokenizers import Tokenizer
$imports

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.encode_special_tokens = True  # "</s>" in a text is text


$source_code


context = ["Hi !", "Hello . How are you ?"]  # turns of two alternating speakers; the last one is\
 answered
source = source_ids(context)
$usage
print(tokenizer.decode(response))
""")
SOURCE_CODE = Template("""\
def source_ids(context):
    other, own, end = $other, $own, $end  # tokens that begin a turn, by its speaker, and end the\
 source
    turns, ids, roles = $turns, [], []
    for place, turn in enumerate(turns):
        role = other if (len(turns) - place) % 2 else own
        tokens = tokenizer.encode($text, add_special_tokens=False).ids
        ids += [role, *tokens]
        roles += [role] * (1 + len(tokens))
$truncation
$result""")


def card(run: Run, chosen: Format, parity: str) -> str:
    """Return the card as Markdown; texts of the run cannot become links, tags or code."""
    model = run.recipe.model
    corpus = run.recipe.data.corpus["name"]
    results = test_results(run)
    size = count_parameters(run.model)["total"]
    code = program(run, chosen)
    parts = [
        front_matter(run, chosen, results),
        f"# {escape_markdown(display_name(run.folder))}",
        (
            "Generates the next turn of a dialogue. Encoder"
            f" {escape_markdown(model.encoder['name'])}, decoder"
            f" {escape_markdown(model.decoder['name'])}, {size:,} parameters, trained from scratch"
            f" on the corpus {escape_markdown(corpus)}. Exported for {chosen.engine} by"
            f" dialog-seq2seq {__version__}."
        ),
        (
            "It writes like its corpus and has no other knowledge: read responses before you show"
            " them to people. Licence and languages at the top of this card are those of the"
            " corpus, if it is a published one; else add them before you publish the card."
        ),
        CODE_NOTE if chosen.with_code else "",
        "## Generate a response",
        (
            f"After `pip install {' '.join(requirements(code))}`, in this"
            f" folder:\n\n```python\n{code}```"
        ),
        "## Parity",
        (
            f"{chosen.engine} compared with the original network: {parity}. `parity.json` has the"
            " versions."
        ),
        results_section(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def program(run: Run, chosen: Format) -> str:
    """Return the Python code of the card: from a context to a response, with `tokenizers` and the
    engine.
    """
    lines = [line for line in chosen.usage(run).splitlines() if line]
    imports = [line for line in lines if is_import(line)]
    return PROGRAM.substitute(
        imports="\n".join(imports),
        source_code=source_code(run),
        usage="\n".join(line for line in lines if not is_import(line)),
    )


def is_import(line: str) -> bool:
    """Return whether a line of code is an import statement."""
    return line.startswith(("import ", "from "))


def requirements(code: str) -> list[str]:
    """Return the distributions that a program imports."""
    words = [line.split() for line in code.splitlines() if is_import(line)]
    packages = {name.partition(".")[0] for _, name, *_ in words}
    needed = {"dialog": {"dialog-seq2seq"}, CODE.removesuffix(".py"): {"torch", "transformers"}}
    return sorted(set().union(*(needed.get(package, {package}) for package in packages)))


def source_code(run: Run) -> str:
    """Return the code of `source_ids`, which lays a context out as in training; see
    `data/store/layout.py`.
    """
    data = run.recipe.data
    room = data.max_source
    result = "    return ids"
    if data.layout != ROLES:
        room += 2  # the first role and the end token are removed again
        result = (
            f"    ids = [{UNK} if token in (other, own) else token for token in ids[1:-1]]\n"
            f"    return ids or [{UNK}]"
        )
    turns = "context"
    if data.context_turns is not None:
        turns = f"context[max(0, len(context) - {data.context_turns}) :]"
    return SOURCE_CODE.substitute(
        other=OTHER,
        own=SELF,
        end=EOS,
        turns=turns,
        text="turn.strip()" if data.normalise else "turn",
        truncation=truncation(data.silence, room),
        result=result,
    )


def truncation(silence: str | None, room: int) -> str:
    """Return the lines that keep the last tokens, behind a first turn that a corpus without one is
    read with.
    """
    if silence is None:
        return (
            f"    start = max(0, len(ids) - {room - 1})\n"
            "    ids = [*roles[start : start + 1], *ids[start + 1 :], end]"
        )
    return (
        f"    before = [own, *tokenizer.encode({literal(silence)},"
        f" add_special_tokens=False).ids][:{room // 2}]\n"
        "    before = before if len(context) % 2 == 0 else []\n"
        f"    start = max(0, len(ids) - ({room - 1} - len(before)))\n"
        "    ids = [*before, *roles[start : start + 1], *ids[start + 1 :], end]"
    )


def literal(text: str) -> str:
    """Return a text as a literal of Python that cannot end a block of code in Markdown."""
    return ascii(text).replace("`", "\\x60")


def results_section(results: Mapping[str, float]) -> str:
    """Return the section of the test split's results; empty without any."""
    if not results:
        return ""
    lines = ["| test split | |", "| --- | --- |"]
    for name, value in results.items():
        display = metric_display(name)
        lines.append(f"| {escape_markdown(display.label)} | {display.format(value)} |")
    table = "\n".join(lines)
    return f"## Results\n\nMeasured by dialog-seq2seq, with the run's search.\n\n{table}"
