"""The classic mistakes of this field, put in one by one, and the test that finds each.

    python tests/mutants/mutants.py [--only attention]

works on a copy. First every named test passes on the code as it is; then each mutant must make its
test fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import analysis_mutants
import data_mutants
import decoding_mutants
import generation_mutants
import model_mutants
import run_mutants
import statistics_mutants
import training_mutants
from mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("dialog", "configs", "recipes", "tests", "pyproject.toml", "README.md")

MUTANTS = (
    *training_mutants.MUTANTS,
    *model_mutants.MUTANTS,
    *data_mutants.MUTANTS,
    *generation_mutants.MUTANTS,
    *decoding_mutants.MUTANTS,
    *run_mutants.MUTANTS,
    *statistics_mutants.MUTANTS,
    *analysis_mutants.MUTANTS,
)


def passes(folder: Path, tests: Iterable[str]) -> bool:
    """Whether tests of a copy pass; an error of collection is neither."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # also tests of `make endurance`, which are not selected by default
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider"]
    command += tests
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode == 0


def killed(folder: Path, mutant: Mutant) -> bool:
    """Whether a mutant's test finds it; the copy is as before afterwards."""
    texts = {edit.file: (folder / edit.file).read_text(encoding="utf-8") for edit in mutant.edits}
    for edit in mutant.edits:
        text = (folder / edit.file).read_text(encoding="utf-8")
        (folder / edit.file).write_text(edit.apply(text), encoding="utf-8")
    try:
        return not passes(folder, [mutant.test])
    finally:
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")


def main() -> int:
    """Print a table; 1 if a mutant lives."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only mutants whose name begins so")
    only = parser.parse_args().only
    chosen = [each for each in MUTANTS if each.name.startswith(only)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        if not passes(folder, sorted({each.test for each in chosen})):
            raise SystemExit("the tests fail without a mutant")
        alive = 0
        print("| mutant | mistake | found by | seconds |\n| --- | --- | --- | ---: |")
        for each in chosen:
            began = time.monotonic()
            found = killed(folder, each)
            alive += not found
            test = each.test.removeprefix("tests/") if found else f"**nothing** ({each.test})"
            print(
                f"| {each.name} | {each.mistake} | {test} | {time.monotonic() - began:.0f} |",
                flush=True,
            )
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
