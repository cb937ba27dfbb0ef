"""Build a virtual environment for each peer system of the benchmarks.

    python benchmarks/environments.py [PEER ...] [--environments FOLDER]

The environments are stored in `--environments`, by default `benchmarks/environments` in the user's
cache. Each is built once, and rebuilt if its recipe here has changed or its build was interrupted.
All use this Python and the torch version below. pip's configuration applies.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

from dialog.paths import cache

TORCH = "torch==2.13.0"
PIECES = "sentencepiece==0.2.0"
MARK = "built.json"
OLDER_DEFAULTS = """\
# Python 3.10's rule for mutable defaults of dataclasses, which fairseq 0.12 and hydra 1.0 were
# written for
import dataclasses, inspect
rule = "f.default.__class__.__hash__ is None"
source = inspect.getsource(dataclasses._get_field).replace(rule, "isinstance(f.default, (list, dict, set))")
exec(source, dataclasses.__dict__)
"""


class Peer(NamedTuple):
    """The pip calls that install a peer, in order, and the imports that must then work."""

    version: str
    installs: tuple[str, ...]
    imports: str
    site: str = ""


PEERS = {
    "joeynmt": Peer(
        "JoeyNMT 2.3.0",
        (
            (
                f"{TORCH} numpy {PIECES} tensorboard sacrebleu pyyaml packaging pandas matplotlib"
                " subword-nmt tqdm"
            ),
            "datasets importlib_metadata",
            "--no-deps joeynmt==2.3.0",
        ),
        "joeynmt.training, joeynmt.datasets",
    ),
    "fairseq": Peer(
        "fairseq 0.12.2",
        (
            "pip<24.1",  # later versions of pip reject the metadata of omegaconf 2.0
            "setuptools<70 wheel cython<3 numpy<1.24",
            # without torch it skips the extensions whose sources are missing from its archive
            "--no-deps --no-build-isolation --no-cache-dir fairseq==0.12.2",
            (
                f"{TORCH} cffi regex sacrebleu<2.5 tqdm bitarray {PIECES} packaging omegaconf<2.1"
                " hydra-core>=1.0.7,<1.1"
            ),
        ),
        "fairseq.data.data_utils_fast, fairseq_cli.train",
        OLDER_DEFAULTS,
    ),
    "opennmt": Peer(
        "OpenNMT-py 3.5.1",
        (
            (
                f"{TORCH} numpy configargparse sacrebleu pyyaml {PIECES} six tqdm flask waitress"
                " rapidfuzz pyonmttok"
            ),
            "tensorboard ctranslate2 subword-nmt spacy pyahocorasick fasttext-wheel",
            "--no-deps OpenNMT-py==3.5.1",
        ),
        "onmt.bin.train",
    ),
    "eole": Peer(
        "Eole 0.6.4",
        (
            (
                f"{TORCH} numpy configargparse pydantic>=2 sacrebleu pyyaml {PIECES} six tqdm"
                " waitress rapidfuzz pyonmttok"
            ),
            (
                "tensorboard fastapi uvicorn huggingface_hub safetensors rich pandas torch-optimi"
                " subword-nmt spacy"
            ),
            "colorlog fasttext-wheel tokenizers aiohttp",
            "--no-deps eole==0.6.4",
        ),
        "eole.bin.run.train",
    ),
    "marian": Peer(
        "Hugging Face transformers 5.23.0",
        (f"{TORCH} numpy transformers==5.23.0 accelerate==1.15.0 {PIECES}",),
        "transformers, accelerate",
    ),
}


class NotBuiltError(Exception):
    """A peer's environment cannot be built; the message states the reason."""


def default_folder() -> Path:
    """Return the default folder of the environments."""
    return cache() / "benchmarks" / "environments"


def python_of(folder: Path, name: str) -> Path:
    """Return the Python of a peer's environment, building it if necessary.

    Raises:
        NotBuiltError: with the last lines of the error.
    """
    root = folder.absolute() / name
    mark = {"recipe": hashlib.sha256(repr(PEERS[name]).encode()).hexdigest(), "python": sys.version}
    python = root / "bin" / "python"
    if not _is_built(root, mark):
        shutil.rmtree(root, ignore_errors=True)
        print(
            f"building the environment of {PEERS[name].version} in {root}",
            file=sys.stderr,
            flush=True,
        )
        _build(root, python, PEERS[name])
        (root / MARK).write_text(json.dumps(mark))
    return python


def _is_built(root: Path, mark: dict[str, str]) -> bool:
    try:
        return bool(json.loads((root / MARK).read_text()) == mark)
    except (OSError, ValueError):
        return False


def _build(root: Path, python: Path, peer: Peer) -> None:
    venv.create(root, with_pip=True)
    for packages in peer.installs:
        _run(
            [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *packages.split(),
            ]
        )
    if peer.site:
        site_packages = _run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        )
        Path(site_packages.strip(), "sitecustomize.py").write_text(peer.site)
    _run([python, "-c", f"import {peer.imports}"])


def _run(command: list[str | Path]) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise NotBuiltError(f"{' '.join(map(str, command[1:]))}: {' / '.join(lines[-3:])}")
    return done.stdout


def main() -> None:
    """Build the named environments, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)} [default: all]"
    )
    parser.add_argument("--environments", type=Path, default=default_folder(), metavar="FOLDER")
    options = parser.parse_args()
    for name in options.peers or PEERS:
        try:
            print(f"{name}: {python_of(options.environments, name)}", flush=True)
        except NotBuiltError as reason:
            print(f"{name}: not built: {reason}", flush=True)


if __name__ == "__main__":
    main()
