"""Make overview.png: the verdict and the learning curves of a comparison, and an attention map.

    python benchmarks/results/run.py --only dailydialog-tuned
    python -m dialog train quickstart/lstm_bahdanau --output RUN
    python docs/images/overview.py runs/results/comparisons/dailydialog-tuned-HASH RUN

Needs Chromium.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

CONTEXT = (
    "I will have the soup and some tea.",
    "For me the pizza and some juice.",
    "What will I drink?",
)
SIZE = "1240,716"
"""Width and height, which ends below the verdict."""
PAGE = """<!doctype html>
<style>
body {{ margin: 0; background: #fff; display: grid;
        grid-template-columns: 600px 620px; gap: 20px; }}
iframe {{ border: 0; width: 600px; height: 716px; }}
div {{ display: grid; justify-items: center; align-content: space-evenly; }}
img {{ max-width: 600px; }}
</style>
<iframe src="{report}"></iframe>
<div><img src="{curves}"><img src="{attention}"></div>
"""
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--disable-background-networking",
    "--force-device-scale-factor=2",
    f"--window-size={SIZE}",
)


def main() -> None:
    """Write overview.png beside this file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("comparison", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("overview.png"))
    options = parser.parse_args()
    comparison = options.comparison.resolve()
    with tempfile.TemporaryDirectory() as folder:
        attention, page = Path(folder, "attention.svg"), Path(folder, "page.html")
        turns = [part for turn in CONTEXT for part in ("--context", turn)]
        command = [
            sys.executable,
            "-m",
            "dialog",
            "attention",
            str(options.run),
            *turns,
            "--output",
            str(attention),
        ]
        subprocess.run(command, check=True)
        parts = {
            "report": comparison / "report.html",
            "curves": comparison / "figures" / "learning-curves-1.svg",
            "attention": attention,
        }
        page.write_text(
            PAGE.format(**{name: path.as_uri() for name, path in parts.items()}), encoding="utf-8"
        )
        shot = ["chromium", *OPTIONS, f"--screenshot={options.output.resolve()}", page.as_uri()]
        subprocess.run(shot, check=True, capture_output=True)


if __name__ == "__main__":
    main()
