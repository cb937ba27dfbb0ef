"""Publications that a paper has to cite, by metric, corpus and component, and their BibTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files

ENTRY = re.compile(r"^@\w+\{([^,]+),.*?^\}", re.MULTILINE | re.DOTALL)
"""An entry of references.bib, and its key."""
CITED = re.compile(r"\\cite[pt]\{([^}]*)\}")

METRICS: Mapping[str, tuple[str, ...]] = {
    "calibration_error": ("guo-2017-calibration",),
    "f1": ("miller-2017-parlai",),
    **dict.fromkeys(
        ("sacrebleu", "bleu_1", "bleu_2", "bleu_3", "bleu_4"),
        ("papineni-2002-bleu", "post-2018-clarity"),
    ),
    **dict.fromkeys(("bleu_plato_1", "bleu_plato_2"), ("papineni-2002-bleu", "bao-2020-plato")),
    "chrf": ("popovic-2015-chrf",),
    "rouge_l": ("lin-2004-rouge",),
    "meteor": ("banerjee-2005-meteor",),
    "embedding_average": ("liu-2016-evaluate",),
    "bert_score": ("zhang-2020-bertscore",),
    "mauve": ("pillutla-2021-mauve",),
    **dict.fromkeys(("distinct_1", "distinct_2"), ("li-2016-diversity",)),
    **dict.fromkeys(("ead_1", "ead_2"), ("liu-2022-distinct",)),
    **dict.fromkeys(("entropy_1", "entropy_2"), ("zhang-2018-informative",)),
    "self_bleu": ("zhu-2018-texygen",),
}
CORPORA: Mapping[str, str] = {
    "cornell": "danescu-2011-chameleons",
    "crosswoz": "zhu-2020-crosswoz",
    "dailydialog": "li-2017-dailydialog",
    "empathetic": "rashkin-2019-empathetic",
    "kdconv": "zhou-2020-kdconv",
    "multi30k": "elliott-2016-multi30k",
    "multiwoz": "budzianowski-2018-multiwoz",
    "opensubtitles": "lison-2016-opensubtitles",
    "personachat": "zhang-2018-personachat",
    "selfdialogue": "fainberg-2018-selfdialogue",
    "sgd": "rastogi-2020-schema",
    "switchboard": "godfrey-1992-switchboard",
    "switchboard_ms98": "godfrey-1992-switchboard",
    "taskmaster": "byrne-2019-taskmaster",
    "topical_chat": "gopalakrishnan-2019-topical",
    "ubuntu": "lowe-2015-ubuntu",
}
NETWORKS: Mapping[str, str] = {
    **dict.fromkeys(("lstm", "lstm_plain"), "hochreiter-1997-lstm"),
    **dict.fromkeys(("gru", "gru_plain"), "cho-2014-gru"),
    **dict.fromkeys(("lstm_luong", "gru_luong"), "luong-2015-attention"),
    **dict.fromkeys(("transformer", "decoder_only"), "vaswani-2017-attention"),
    **dict.fromkeys(("min_gru", "min_lstm"), "feng-2024-rnns"),
    **dict.fromkeys(("mlstm", "slstm"), "beck-2024-xlstm"),
    "mamba2": "dao-2024-mamba2",
    "gated_delta": "yang-2025-gated-delta",
    "gla": "yang-2024-gla",
    "retnet": "sun-2023-retnet",
    "rwkv7": "peng-2025-rwkv7",
}
"""Encoders and decoders."""
ATTENTIONS: Mapping[str, str] = {
    "additive": "bahdanau-2015-align",
    **dict.fromkeys(("dot", "bilinear", "location", "local"), "luong-2015-attention"),
    **dict.fromkeys(("scaled_dot", "multi_head"), "vaswani-2017-attention"),
}
OPTIMIZERS: Mapping[str, str] = {
    "adam": "kingma-2015-adam",
    "adamw": "loshchilov-2019-decoupled",
}
TOKENIZERS: Mapping[str, str] = {"byte_bpe": "sennrich-2016-subword"}


def cite(*keys: str) -> str:
    r"""Return ``~\citep{a,b}``; nothing without keys."""
    return rf"~\citep{{{','.join(keys)}}}" if keys else ""


def bibliography(texts: Iterable[str], version: str, year: int) -> str:
    """Return the BibTeX entries that LaTeX texts cite, sorted by key.

    Args:
        texts: LaTeX texts.
        version: Version of this package.
        year: Year of the comparison.

    Raises:
        ValueError: a citation without an entry.
    """
    groups = CITED.findall("\n".join(texts))
    keys = {key for group in groups for key in group.split(",")}
    source = (files(__package__) / "references.bib").read_text(encoding="utf-8")
    entries = {match[1]: match[0] for match in ENTRY.finditer(source)}
    if missing := keys - entries.keys():
        raise ValueError(f"no entry for {', '.join(sorted(missing))}")
    text = "\n\n".join(entries[key] for key in sorted(keys)) + "\n"
    return text.replace("VERSION", version).replace("YEAR", str(year))
