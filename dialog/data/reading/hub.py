"""Stream the rows of a data set from the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Iterator

from dialog.data.reading.downloads import is_offline
from dialog.data.reading.parquet import INSTALL, Row
from dialog.errors import UserError


def hub_rows(
    dataset: str, config: str | None, revision: str | None, split: str
) -> Iterator[tuple[str, Row]]:
    """Yield (dataset:split:row number, row); rows are streamed, not cached.

    Raises:
        UserError: DIALOG_OFFLINE is set, the package `datasets` is missing, or the Hub returns an
            error.
    """
    if is_offline():
        raise UserError(
            f"{dataset} is on the Hub and DIALOG_OFFLINE forbids downloads; get its files and set"
            " data.path=DIR"
        )
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(
            f"corpus huggingface needs datasets to read {dataset}; {INSTALL}"
        ) from error
    try:
        stream = load_dataset(dataset, config, split=split, revision=revision, streaming=True)
        for number, row in enumerate(stream, start=1):
            yield f"{dataset}:{split}:{number}", row
    except Exception as error:  # the library's errors share no narrower class
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(
            f"{dataset} cannot be read from the Hub ({reason}); check its name and split"
        ) from error
