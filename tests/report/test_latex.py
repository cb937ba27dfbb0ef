from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dialog.escaping import escape_latex
from dialog.report.formats.results import results_of_json
from dialog.report.latex import MOST_ROWS, to_latex

DOCUMENT = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx}
\begin{document}\input{t}\end{document}
"""


def tables(text: str) -> list[str]:
    return re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, re.DOTALL)


def test_captions_have_seeds_test_set_and_method(results: dict[str, Any]) -> None:
    found = tables(to_latex(results_of_json(results)))
    assert len(found) > 5
    for table in found:
        caption = re.search(r"\\caption\{(.*)\}\n\\label", table)
        assert caption is not None
        assert "3 seeds each." in caption[1]
        assert (
            "Evaluation 0123456789ab, test split, 7,740 responses in 1,000 dialogues" in caption[1]
        )
    likelihood = next(table for table in found if "Likelihood." in table)
    assert "t with Satterthwaite degrees of freedom" in likelihood
    assert re.search(
        r"^Bits per byte \$\\downarrow\$ & \\textbf\{1\.\d{3} \$\\pm\$ ", likelihood, re.MULTILINE
    )
    assert (
        "contract. 1 of 2 settings that must be equal for a fair comparison differ: data hello."
        " Settings" in found[0]
    )
    assert "textbf" not in next(table for table in found if "caption{Cost" in table)


def test_rows_have_as_many_cells_as_columns(results: dict[str, Any], three: dict[str, Any]) -> None:
    for variant in (results, three):
        for table in tables(to_latex(results_of_json(variant))):
            columns = len(re.search(r"\{(lr+)\}", table)[1])
            rows = [
                line
                for line in table.splitlines()
                if line.endswith(r" \\") and "multicolumn" not in line
            ]
            assert rows
            assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {columns}


def test_text_cannot_be_a_command() -> None:
    text = escape_latex("\\input{/etc/passwd} $x$ 50% a_b ^~#& [*] -- ``'' \"<>|\n你好 é \x1b")
    assert text == (
        r"\textbackslash{}input\{/etc/passwd\} \$x\$ 50\% a\_b"
        r" \textasciicircum{}\textasciitilde{}\#\& "
        r"[*] -{}- "
        r"\textasciigrave{}\textasciigrave{}'{}' "
        r"\textquotedbl{}\textless{}\textgreater{}\textbar{}\textbackslash{}n"
        r"{[}U+4F60{]}{[}U+597D{]} é \textbackslash{}x1b"
    )
    assert escape_latex("*a") == "{*}a", "no argument of a line break before it"
    assert escape_latex("[a] ,, x") == "{[}a] ,{}, x"


def test_braces_of_hostile_results_are_balanced(hostile: dict[str, Any]) -> None:
    text = to_latex(results_of_json(hostile))
    bare = re.sub(r"\\[\\{}]", "", text)
    assert bare.count("{") == bare.count("}")


def test_long_tables_are_split(results: dict[str, Any]) -> None:
    for entries in (
        summary for model in results["models"] for summary in model["summary"].values()
    ):
        entries |= {f"metric_{number}": entries["f1"] for number in range(10)}
    captions = re.findall(r"\\caption\{([\w ]+)\.", to_latex(results_of_json(results)))
    assert captions.count("Generated responses") == 4, (
        "a table for each subset, and one of reference systems"
    )


def test_pairs_of_three_contenders_have_p_values(three: dict[str, Any]) -> None:
    tables = re.findall(r"\\toprule.*?\\bottomrule", to_latex(results_of_json(three)), re.DOTALL)
    pairs = [table for table in tables if " & Pair & " in table and " & p (adj.) & " in table]
    assert any("Bits per byte" in table for table in pairs)
    assert any("F1" in table for table in pairs)


def test_a_table_fits_a_page(results: dict[str, Any]) -> None:
    """One group of rows too, as the pairs of many contenders."""
    for entries in (
        summary for model in results["models"] for summary in model["summary"].values()
    ):
        entries |= {f"metric_{number}": entries["f1"] for number in range(2 * MOST_ROWS)}
    tables = re.findall(r"\\toprule.*?\\bottomrule", to_latex(results_of_json(results)), re.DOTALL)
    assert max(table.count(r"\\") for table in tables) <= MOST_ROWS + 4, (
        "the heads of table and group included"
    )
    assert "metric_0" in "".join(tables).replace(r"\_", "_")


def test_headings_have_lines_as_wide_as_their_column(results: dict[str, Any]) -> None:
    text = to_latex(results_of_json(results))
    assert " & 95 \\% interval & " in text
    assert r"\shortstack[r]{Prob. of \\ improvement}" in text


def test_the_verdict_is_a_paragraph(three: dict[str, Any]) -> None:
    paragraphs = to_latex(results_of_json(three)).split("\n\n")
    assert paragraphs[1] == "Warning: lstm: seed 2 diverged hello"
    assert paragraphs[2].startswith("lstm is better than transformer")
    assert "Seeds: 3 of lstm, 3 of transformer. " in paragraphs[-1]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_pdflatex_compiles_the_tables(
    hostile: dict[str, Any], three: dict[str, Any], tmp_path: Path
) -> None:
    for variant in (hostile, three):
        (tmp_path / "t.tex").write_text(to_latex(results_of_json(variant)), encoding="utf-8")
        (tmp_path / "document.tex").write_text(DOCUMENT, encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
        compiled = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False
        )
        assert compiled.returncode == 0, compiled.stdout[-2000:]
