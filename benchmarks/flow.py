"""Count the code that one command of the quickstart passes through.

    python benchmarks/flow.py train
    python benchmarks/flow.py compare --list

Run the command in this process on a tiny corpus for five steps, from an empty cache, and count
under ``sys.setprofile``, in all threads:

* files: files of dialog/ of which at least one function is called;
* functions: functions and methods of dialog/ that are called;
* deepest chain: largest number of frames of dialog/ on the stack at once, those of the libraries
  between them left out.

Bodies of modules and classes, what is called while a module is imported, lambdas and comprehensions
do not count, nor what child processes call.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType

import dialog.cli

ROOT = Path(dialog.cli.__file__).parents[1]
SETTINGS = (
    *("data.corpus.size=200", "trainer.max_steps=5", "trainer.val_check_interval=5"),
    *("trainer.accelerator=cpu", "trainer.devices=1", "logger=none"),
)
COMMANDS = {
    "train": ("quickstart/transformer",),
    "compare": ("quickstart/lstm_bahdanau", "quickstart/transformer"),
}


class Flow:
    """Profile function that records called functions of dialog/ and the deepest chain of them."""

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.deepest: list[CodeType] = []
        self.chains: defaultdict[int, list[CodeType]] = defaultdict(list)  # by thread

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Record a call or a return; calls of C functions have other events."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(ROOT)):
            return
        if not is_module(code) and not is_function(code):
            return
        chain = self.chains[threading.get_ident()]
        if event == "call":
            chain.append(code)
            if not any(map(is_module, chain)):
                self.functions.add(code)
                if len(chain) > len(self.deepest):
                    self.deepest = chain.copy()
        elif chain:  # else the function was called before the profile began
            chain.pop()


def is_module(code: CodeType) -> bool:
    """Return whether code is the body of a module, which runs when it is imported."""
    return code.co_name == "<module>"


def is_function(code: CodeType) -> bool:
    """Return whether code is that of a named function; a class body has no fast locals."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")


def place(code: CodeType) -> str:
    """Return file, line and name of a function."""
    return f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno} {code.co_qualname}"


def main() -> None:
    """Run a command and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--list", action="store_true", help="print all functions and the chain")
    arguments = parser.parse_args()
    flow = Flow()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DIALOG_CACHE": f"{folder}/cache", "DIALOG_OFFLINE": "1"}
        output = ["--output", f"{folder}/{arguments.command}"]
        recipes = COMMANDS[arguments.command]
        sys.argv = ["dialog-seq2seq", arguments.command, *recipes, *SETTINGS, *output]
        threading.setprofile(flow)
        sys.setprofile(flow)
        try:
            dialog.cli.main()
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    files = {code.co_filename for code in flow.functions}
    if arguments.list:
        print(*sorted(map(place, flow.functions)), "", *map(place, flow.deepest), sep="\n")
    print(f"{arguments.command}: {len(files)} files, {len(flow.functions):,} functions", end="")
    print(f", deepest chain {len(flow.deepest)}")


if __name__ == "__main__":
    main()
