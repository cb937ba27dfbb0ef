"""Make overview.png: an attention map of the LSTM, and the top of the report of the quickstart comparison.

    python -m dialog compare quickstart/lstm_bahdanau quickstart/transformer --seeds 3 --output runs/overview
    python docs/images/overview.py runs/overview

Needs Chromium.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

CONTEXT = ("I will have the soup and some tea.", "For me the pizza and some juice.", "What will I drink?")
LSTM = "runs/quickstart/lstm_bahdanau/seed-1"
WIDTH, HEIGHT = 1240, 1560


def main() -> None:
    """Write overview.png beside this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("overview.png"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        attention, page = Path(folder) / "attention.png", Path(folder) / "page.png"
        turns = [part for turn in CONTEXT for part in ("--context", turn)]
        run = str(options.comparison / LSTM)
        subprocess.run([sys.executable, "-m", "dialog", "attention", run, *turns, "--output", attention], check=True)
        address = (options.comparison / "report.html").resolve().as_uri()
        size = f"--window-size={WIDTH},{HEIGHT}"
        shot = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", size, f"--screenshot={page}", address]
        subprocess.run(shot, check=True, capture_output=True)
        stacked([Image.open(attention).convert("RGB"), Image.open(page).convert("RGB")]).save(
            options.output, optimize=True
        )


def stacked(images: list[Image.Image]) -> Image.Image:
    """Return images of one width below each other; a wider one is scaled down."""
    scaled = [
        image.resize((WIDTH, round(image.height * WIDTH / image.width))) if image.width > WIDTH else image
        for image in images
    ]
    whole = Image.new("RGB", (WIDTH, sum(image.height for image in scaled)), "white")
    top = 0
    for image in scaled:
        whole.paste(image, ((WIDTH - image.width) // 2, top))
        top += image.height
    return whole.quantize(256, Image.Quantize.FASTOCTREE)


if __name__ == "__main__":
    main()
