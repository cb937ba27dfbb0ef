"""Shards: shard i of N parses and tokenises the parts i, i + N, ... of every split, independently
of the other shards. Of a split that is not divided it parses all, and tokenises the blocks i, i +
N, ...
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from dialog.atomic import new_folder
from dialog.data.corpora import Corpus
from dialog.data.dialogue import Entry
from dialog.data.preparation.division import Division, read_division
from dialog.data.preparation.draft import DRAFT, RECORDS, read_filters, read_records, total
from dialog.data.preparation.encoding import BLOCK_ARRAYS, Arrays, encode
from dialog.data.preparation.filtering import Remarks, blocks, filter_block
from dialog.data.preparation.job import Job, Progress, no_progress
from dialog.data.store.arrays import ArrayFiles, ArrayType, array_file, read_array
from dialog.data.store.manifest import TOKENIZER
from dialog.data.tokenizers.tokenizer import Tokenizer

ORDER = ("validation", "test", "train")
"""The draft has counted train, so the total is known once validation and test are read."""


class EncodedBlock(NamedTuple):
    """A block: the number of its part of a divided split, else its own; its arrays, as `encode`
    returns them, its counts and its remarks.
    """

    place: int
    arrays: Arrays
    counts: Counter[str]
    remarks: Remarks


def shard_folder(shards: Path, index: int, count: int) -> Path:
    """Return the folder of shard `index` of `count`."""
    return shards / f"{index}-of-{count}"


def write_shard(
    job: Job, shards: Path, index: int, count: int, progress: Progress = no_progress
) -> None:
    """Write shard `index` of `count` from the draft, unless it exists; its folder appears
    complete.
    """
    folder = shard_folder(shards, index, count)
    if folder.is_dir():
        return
    tokenizer = Tokenizer.load(shards / DRAFT / TOKENIZER)
    filters = read_filters(job, shards / DRAFT)
    draft = read_records(shards / DRAFT)
    division = read_division(shards / DRAFT)
    records: dict[str, int] = {}
    with new_folder(folder) as partial, (partial / RECORDS).open("w") as records_file:

        def record(split: str, read: int) -> None:
            records[split] = read
            records_file.seek(0)  # never shorter than the text before
            records_file.write(json.dumps(records))
            records_file.flush()
            _report([records], 1, draft, division, progress)

        for split in ORDER:
            train = split == "train"
            record(split, 0)
            with (
                ArrayFiles(partial, split, BLOCK_ARRAYS) as files,
                _log(partial, split).open("w") as log,
            ):
                read = 0
                for place, start, entries in _blocks(job.corpus, split, division, index, count):
                    if place % count == index:
                        block = filter_block(start, entries, job.rules, filters if train else ())
                        arrays, counts = encode(
                            block.dialogues, tokenizer, job.limits, train=train, layout=job.layout
                        )
                        for name, array in arrays.items():
                            files.writers[name].append(array)
                        sizes = {name: len(array) for name, array in arrays.items()}
                        line = [place, sizes, block.counts + counts, block.remarks]
                        log.write(json.dumps(line) + "\n")
                    read += len(entries)
                    record(split, read)
            _types(partial, split).write_text(json.dumps(files.kinds))


def _blocks(
    corpus: Corpus, split: str, division: Division, index: int, count: int
) -> Iterator[tuple[int, int, list[Entry]]]:
    """Yield the blocks that a shard reads: (part, or block if the split is not divided; number of
    the first record; records).
    """
    if not division.is_divided(split):
        for number, (start, entries) in enumerate(blocks(corpus.dialogues(split))):
            yield number, start, entries
        return
    for place in range(index, len(division.parts[split]), count):
        first = division.numbers[place] if split == "train" and division.numbers else 0
        for start, entries in blocks(division.entries(corpus, split, place)):
            yield place, first + start, entries


def read_shard(shard: Path, split: str) -> Iterator[EncodedBlock]:
    """Yield the blocks of one split of a shard."""
    types = {
        name: ArrayType(*kind)
        for name, kind in json.loads(_types(shard, split).read_text()).items()
    }
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(array_file(shard, split, name).open("rb")) for name in types
        }
        for line in stack.enter_context(_log(shard, split).open()):
            place, sizes, counts, remarks = json.loads(line)
            arrays = {
                name: read_array(files[name], kind._replace(size=sizes[name]))
                for name, kind in types.items()
            }
            yield EncodedBlock(place, arrays, Counter(counts), remarks)


def report_progress(shards: Path, count: int, progress: Progress) -> None:
    """Report how many records the shards have read that other processes write."""
    records: dict[str, dict[str, int]] = {}
    # in this order, a shard renamed meanwhile is not missed
    for pattern in (f".*-of-{count}.*", f"[0-9]*-of-{count}"):
        for path in shards.glob(pattern):
            with suppress(OSError, ValueError):  # just renamed, or just created
                index = path.name.strip(".").partition("-")[0]
                # a restart has fewer
                records[index] = max(records.get(index, {}), read_records(path), key=total)
    draft = read_records(shards / DRAFT)
    _report(records.values(), count, draft, read_division(shards / DRAFT), progress)


def _report(
    shards: Collection[Mapping[str, int]],
    count: int,
    draft: Mapping[str, int],
    division: Division,
    progress: Progress,
) -> None:
    """Report the number of records that the shards have read."""
    read = total(records_read(shards, count, division))
    progress("tokenising", read, _corpus_size(shards, count, draft, division))


def records_read(
    shards: Collection[Mapping[str, int]], count: int, division: Division
) -> dict[str, int]:
    """Return the records that `count` shards have read; if each reads the whole split, their
    mean.
    """
    return {
        split: sum(records.get(split, 0) for records in shards)
        // (1 if division.is_divided(split) else count)
        for split in ORDER
    }


def _corpus_size(
    shards: Collection[Mapping[str, int]],
    count: int,
    draft: Mapping[str, int],
    division: Division,
) -> int | None:
    """Return the number of records of the corpus; None until validation and test are read, or if
    the draft has not counted the training records.
    """
    later = [records for records in shards if "train" in records]
    needed = count if any(map(division.is_divided, ORDER[:-1])) else 1
    if "train" not in draft or len(later) < needed:
        return None
    return total({**records_read(later, len(later), division), "train": draft["train"]})


def _log(shard: Path, split: str) -> Path:
    return shard / f"{split}.blocks.jsonl"


def _types(shard: Path, split: str) -> Path:
    return shard / f"{split}.types.json"
