"""The scripts of the page in Node: tokenizer, sources and searches equal those of the package."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chains import END, START, Chain

import dialog.export.web
from dialog.config.schema import GenerationConfig
from dialog.data.dialogue import Example, Turn
from dialog.data.store.layout import LAYOUTS, encode_example
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF, UNK, Tokenizer
from dialog.data.tokenizers.trained import byte_bpe
from dialog.export.web.model import generation, is_byte_level, tokenizer_tables
from dialog.export.web.weights import KINDS, by_rows, expanded, kind_of, packed
from dialog.generation.build import build_constraints
from dialog.generation.constraints import Constraints
from dialog.generation.searches.beam import Beam, BeamSettings
from dialog.generation.searches.greedy import Greedy
from dialog.generation.searches.sampling import Sampling, row_uniform

NODE = shutil.which("node")
# the scripts of the page run in Node, which no Python package brings
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")
SCRIPTS = ("tokenizer.js", "search.js", "engine.js")
TEXTS = (
    *("", "Hi !", "</s><s>", "<self> <other>", "it's  I'LL we'll", " leading", "trailing \n\n x"),
    *(
        "naïve café",
        "cafe\u0301",
        "😀👩‍👩‍👧 ok",
        "日本語 テキスト",
        "١٢٣ 12ab",
        "a\u0085b\ufeffc\u00a0d",
    ),
    *(
        "\u1680x\u2003y",
        "tab\tend\r\n",
        "_under__score_",
        "!!! ... ?!",
        "हिन्दी",
        "\u0000\u001c\u001f",
    ),
    *("no\u200djoin", "x" * 300, "𝒳𝓎 ＡＢＣ", "‘quotes’ — dash", "\ufffd", "'s 'S 't"),
)
CORPUS = [
    "Hello you , how are you ?",
    "I'm fine , it's a naïve café .",
    "日本語 テキスト",
    "hello hello",
]


def in_node(steps: str, values: Any) -> Any:
    """Return what asynchronous `steps` return, after the scripts, for `input`."""
    folder = Path(dialog.export.web.__file__).parent
    code = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    main = f"(async () => {{ {steps} }})()"
    program = (
        f"{code}\nconst input = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n"
        f"{main}.then((result) => process.stdout.write(JSON.stringify(result)));"
    )
    assert NODE is not None
    done = subprocess.run(
        [NODE, "-e", program], input=json.dumps(values), capture_output=True, text=True, timeout=120
    )
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return byte_bpe(CORPUS * 3, vocabulary=330)


def random_texts(count: int) -> list[str]:
    """Texts of characters of many kinds, so that words begin and end at all of them."""
    draw = np.random.default_rng(1)
    alphabet = [
        *"ab '.,\n\t 1é_</s>",
        "ll",
        "'s",
        "\u0301",
        "\u00a0",
        "\u0085",
        "😀",
        "日",
        "\ufeff",
        "٣",
    ]
    sizes = draw.integers(1, 20, count)
    return ["".join(draw.choice(alphabet, size)) for size in sizes]


def test_tokenizer(tokenizer: Tokenizer) -> None:
    """Texts are encoded equally, and decoded; no text becomes a special token."""
    texts = [*TEXTS, *random_texts(2000)]
    steps = """
    const tokenizer = new Tokenizer(input.tables);
    const ids = input.texts.map((text) => tokenizer.encode(text));
    const groups = ids.map((row) => tokenizer.groups(row).map(([first, end]) => tokenizer.decode(row.slice(first, end))).join(""));
    return { ids, texts: ids.map((row) => tokenizer.decode(row)), groups, half: tokenizer.decode(ids[9].slice(0, 2)), none: tokenizer.decode([0, 1, 2]) };
    """
    result = in_node(steps, {"tables": tokenizer_tables(tokenizer), "texts": texts})
    expected = tokenizer.encode_batch(texts)
    assert result["ids"] == expected
    assert min(token for row in expected for token in row) > SELF
    assert result["texts"] == [tokenizer.decode(row) for row in expected]
    assert result["groups"] == result["texts"]
    assert result["half"] == tokenizer.decode(expected[9][:2])
    assert result["none"] == ""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sources(tokenizer: Tokenizer, layout: str) -> None:
    contexts = [[], ["Hi !"], ["", "a"], ["Hello you", "\x1c it's \n", "fine " * 20], ["a b c"] * 9]
    cases = [
        (context, limit, silence)
        for context in contexts
        for limit in (1, 2, 9, 64)
        for silence in (None, "Hello .")
    ]
    settings = [
        {
            "maxSource": limit,
            "contextTurns": None,
            "normalise": True,
            "layout": layout,
            "silence": None if silence is None else tokenizer.encode(silence),
        }
        for _, limit, silence in cases
    ]
    values = {
        "tables": tokenizer_tables(tokenizer),
        "cases": [[case[0], one] for case, one in zip(cases, settings, strict=True)],
        "special": {"other": OTHER, "self": SELF, "end": EOS, "unknown": UNK},
    }
    steps = """
    const tokenizer = new Tokenizer(input.tables);
    return input.cases.map(([context, settings]) => sourceOf(context, tokenizer, settings, input.special));
    """
    expected = []
    for context, limit, silence in cases:
        facts = (Turn("self", silence),) if silence is not None and len(context) % 2 == 0 else ()
        speakers = ("self" if place % 2 == 0 else "other" for place in range(len(context), 0, -1))
        turns = tuple(map(Turn, speakers, (text.strip() for text in context)))
        example = Example("", "", turns, Turn("self", ""), 0, facts)
        source, _ = encode_example(
            tokenizer, example, max_source=limit, max_target=None, layout=layout
        )
        expected.append(source)
    assert in_node(steps, values) == expected


VOCABULARY = 9
PLAIN: dict[str, Any] = {"max_length": 7}
LIMITS: tuple[dict[str, Any], ...] = (
    PLAIN,
    {"min_length": 3, "max_length": 5, "no_repeat_ngram": 2},
    {"max_length": 6, "block_context_ngram": 2, "no_repeat_ngram": 1},
    {"max_length": 12, "repetition_penalty": 1.7, "frequency_penalty": 0.4, "min_length": 0},
    {"max_length": 5, "prefix": [4, 2, 4], "no_repeat_ngram": 1},
)
SEARCHES: tuple[dict[str, Any], ...] = (
    {"name": "greedy"},
    {
        "name": "beam",
        "width": 5,
        "candidates": 5,
        "length_penalty": 1.0,
        "normalisation": "average",
    },
    {"name": "beam", "width": 3, "candidates": 1, "length_penalty": 0.6, "normalisation": "gnmt"},
    {
        "name": "beam",
        "width": 1,
        "candidates": 1,
        "length_penalty": 0.0,
        "normalisation": "average",
    },
    {"name": "sampling", "temperature": 0.7, "top_k": 0, "top_p": 0.8, "min_p": 0.0},
    {"name": "sampling", "temperature": 1.3, "top_k": 4, "top_p": 1.0, "min_p": 0.05},
)
SOURCE = [6, 5, 3, 8, 4, 7, END]
SPECIAL = [START, 2]


def test_searches() -> None:
    """Greedy search, beams and sampling with the same draws, on random Markov chains."""
    cases = [
        (seed, search, limits) for seed in range(6) for search in SEARCHES for limits in LIMITS
    ]
    everything = GenerationConfig().__dict__
    expected = []
    values = []
    for seed, search, limits in cases:
        chain = Chain.draw(VOCABULARY, seed)
        constraints = Constraints(end=END, special=SPECIAL, **limits)
        kept = {key: value for key, value in search.items() if key != "name"}
        [draws] = row_uniform(1, SOURCE, "", (1, constraints.max_length + 1)).tolist()
        if search["name"] == "beam":
            decode: Any = Beam(BeamSettings(**kept), constraints=constraints)
        elif search["name"] == "sampling":
            decode = Sampling(constraints=constraints, **kept)
        else:
            decode = Greedy(constraints=constraints)
        [[best, *_]] = chain.search(decode, source=torch.tensor([SOURCE]))
        expected.append(best.tokens)
        limits = {**everything, "prefix": [], **limits, "special": SPECIAL}
        values.append(
            {"chain": chain.logits.tolist(), "search": search, "limits": limits, "draws": draws}
        )
    steps = f"""
    const results = [];
    for (const {{ chain, search: settings, limits, draws }} of input.cases) {{
      let before = Array(settings.width ?? 1).fill({START}), last = before;
      const step = async (tokens, rows) => {{
        before = rows.map((row) => last[row]);
        last = tokens;
        return tokens.map((token, row) => Float64Array.from(chain[before[row]][token]));
      }};
      const constraints = new Constraints(limits, {SOURCE}, {END});
      results.push(await search(step, {START}, constraints, settings, {{ uniform: () => draws.shift() }}));
    }}
    return results;
    """
    assert in_node(steps, {"cases": values}) == expected


def test_weights_are_expanded_as_in_python() -> None:
    draw = np.random.default_rng(2)
    tensors = [by_rows(draw.normal(size=shape)) for shape in ((3, 5), (4,), (2, 3, 2))]
    tensors += [by_rows(np.array([0, -0.0, 65504, 1e-7, 6e-5, -2.5])), by_rows(np.zeros((2, 3)))]
    tensors.append(by_rows(np.array([1e6, 1.0])))
    for kind in KINDS:
        kinds = [(kind_of(values, kind), *values.shape) for values in tensors]
        data = [packed(values, one[0]) for values, one in zip(tensors, kinds, strict=True)]
        stored = [expanded(part, *one) for part, one in zip(data, kinds, strict=True)]
        steps = "return [...new Float32Array(expanded(Uint8Array.from(input.data), input.kinds).buffer)];"
        result = in_node(steps, {"data": [*b"".join(data)], "kinds": kinds})
        assert np.array_equal(
            np.float32(result), np.concatenate([values.ravel() for values in stored])
        )
        for values, exact, (one, *_) in zip(tensors, stored, kinds, strict=True):
            scale = np.abs(values).max(1, keepdims=True)
            tolerance = {"int8": 0.005, "float16": 0.0005, "float32": 0.0}[one]
            assert (np.abs(exact - values) <= tolerance * scale + 3e-8).all()
            again = packed(exact, one)  # rounded weights are stored without a change
            assert np.array_equal(expanded(again, one, *values.shape), exact)


def test_constraints_of_a_recipe(tokenizer: Tokenizer) -> None:
    """A page has the search of the recipe, with constraints that are written inside of it."""
    config = GenerationConfig(
        search={"name": "beam", "width": 3, "max_length": 9}, prefix="Hello", no_repeat_ngram=3
    )
    result = generation(config, tokenizer)
    assert result["search"] == {
        **{"name": "beam", "width": 3, "candidates": 1},
        **{"length_penalty": 1.0, "normalisation": "average"},
    }
    limits = result["limits"]
    assert (limits["max_length"], limits["no_repeat_ngram"]) == (9, 3)
    built = build_constraints(
        {key: value for key, value in config.__dict__.items() if key != "search"}, tokenizer
    )
    assert (limits["prefix"], limits["special"]) == ([*built.prefix], [*built.special])


def test_other_tokenizers_are_known(tokenizer: Tokenizer) -> None:
    content = json.loads(tokenizer.json)
    assert is_byte_level(content)
    for key, value in (
        ("normalizer", None),
        ("decoder", None),
        ("pre_tokenizer", {**content["pre_tokenizer"], "add_prefix_space": True}),
        ("model", {**content["model"], "continuing_subword_prefix": "##"}),
        ("model", {"type": "WordLevel"}),
    ):
        assert not is_byte_level({**content, key: value})
