"""Preparation as a pure map: shard i of N tokenises the blocks i, i + N, ... of every split; a merge orders them.

What shards share (the tokenizer, what filters know of the corpus) is a function of the job alone: the draft.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np

from dialog.atomic import new_folder
from dialog.config.components import build
from dialog.data.corpora import Corpus
from dialog.data.dialogue import SPLITS, Entry
from dialog.data.examples import ExampleRules
from dialog.data.filters import FILTERS, Filter
from dialog.data.preparation.blocks import BLOCK, Remarks, Sieve, Surveyed, blocks, choose, remark
from dialog.data.preparation.checks import check_counts, check_examples, check_ids, check_records
from dialog.data.preparation.writer import MARKS, Appender, Arrays, Limits, dtypes, encode
from dialog.data.store.length_classes import write_classes
from dialog.data.store.manifest import TOKENIZER, array_file
from dialog.data.tokenizers import TOKENIZERS
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and how much there is where that is known."""

DRAFT = "draft"
RECORDS = "records.json"
"""How many records each split has given to whoever writes the folder."""
ORDER = ("validation", "test", "train")
"""The draft has counted train: once the others are read, all is counted, at no pass more."""


def nothing(what: str, done: int, total: int | None) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True)
class Job:
    """What is prepared: a corpus and every setting on which the result depends.

    Args:
        corpus: Where the dialogues come from.
        component: The part of the recipe that chose it.
        tokenizer: A member of `TOKENIZERS` with its arguments.
        rules: How dialogues become examples.
        limits: The most ids, the end included: of a source, which is cut from the left, and of a target, which is cut
            from the right in the training split.
        max_dropped: The greatest share of records, and of turns, that may be dropped for being malformed or empty.
        filters: Members of `FILTERS` with their arguments, for the training split.
    """

    corpus: Corpus
    component: Mapping[str, object]
    tokenizer: Mapping[str, object]
    rules: ExampleRules
    limits: Limits
    max_dropped: float = 0.01
    filters: Sequence[Mapping[str, object]] = field(default_factory=tuple)

    def build_filters(self) -> list[Filter]:
        """The filters, which know nothing of the corpus yet."""
        return [build(FILTERS, component) for component in self.filters]


# ------------------------------------------------------------------ draft


def draft(job: Job, parts: Path, progress: Progress = nothing) -> None:
    """Make `<parts>/draft/`: the tokenizer, what each filter knows, and how many records a split that was read gave."""
    if (parts / DRAFT).is_dir():
        return
    with new_folder(parts / DRAFT) as folder:
        records: dict[str, int] = {}
        for number, filter in enumerate(job.build_filters()):
            read = partial(_read, job.corpus, records, progress, f"filter {job.filters[number]['name']}")
            splits = {split: Surveyed(read, job.rules, split) for split in SPLITS}
            np.save(folder / f"filter-{number}.npy", filter.survey(splits), allow_pickle=False)
        entries = _read(job.corpus, records, progress, "learning the tokenizer", "train")
        texts = _texts(job, entries, _sieves(job, folder))
        build(TOKENIZERS, job.tokenizer, texts=_asked(texts, progress)).save(folder / TOKENIZER)
        for _ in texts:
            pass  # what the tokenizer has not asked for is counted all the same
        (folder / RECORDS).write_text(json.dumps(records))


def _read(corpus: Corpus, records: dict[str, int], progress: Progress, what: str, split: str) -> Iterator[Entry]:
    """The records of a split; says how many are read, of as many as the last pass found, and writes down how many."""
    what = what if split == "train" else f"{what}, {split}"
    progress(what, 0, records.get(split))
    read = 0
    for read, entry in enumerate(corpus.dialogues(split), start=1):
        yield entry
        if read % BLOCK == 0:
            progress(what, read, records.get(split))
    records[split] = read
    progress(what, read, read)


def _texts(job: Job, train: Iterable[Entry], sieves: Sequence[Sieve]) -> Iterator[str]:
    """What is said and known in the training dialogues that stay."""
    for start, entries in blocks(train):
        for dialogue, _ in choose(start, entries, job.rules, sieves).chosen:
            yield from (line.text for line in (*dialogue.facts, *dialogue.turns))


def _asked(texts: Iterator[str], progress: Progress) -> Iterator[str]:
    """The texts; says at their end what a tokenizer that has asked for all then does."""
    yield from texts
    progress("training the tokenizer", 0, None)


def _sieves(job: Job, folder: Path) -> list[Sieve]:
    names = [str(component["name"]) for component in job.filters]
    known = (np.load(folder / f"filter-{number}.npy", allow_pickle=False) for number in range(len(names)))
    return [Sieve(*each) for each in zip(names, job.build_filters(), known, strict=True)]


# ------------------------------------------------------------------ shards


def write_shard(job: Job, parts: Path, index: int, count: int, progress: Progress = nothing) -> None:
    """Make `<parts>/<index>-of-<count>/` from the draft, unless it is there: it appears at once and complete."""
    folder = parts / f"{index}-of-{count}"
    if folder.is_dir():
        return
    tokenizer = Tokenizer.load(parts / DRAFT / TOKENIZER)
    sieves = _sieves(job, parts / DRAFT)
    expected = _records(parts / DRAFT)
    records: dict[str, int] = {}
    with new_folder(folder) as partial, (partial / RECORDS).open("w") as seen:

        def tell(split: str, read: int) -> None:
            records[split] = read
            seen.seek(0)  # what is written over is never longer
            seen.write(json.dumps(records))
            seen.flush()
            _tell([records], 1, expected, progress)

        for split in ORDER:
            tell(split, 0)
            with Appender(partial, split, len(tokenizer)) as files, _log(partial, split).open("w") as log:
                for number, (start, entries) in enumerate(blocks(job.corpus.dialogues(split))):
                    if number % count == index:
                        block = choose(start, entries, job.rules, sieves if split == "train" else ())
                        arrays, counts = encode(block.chosen, tokenizer, job.limits, train=split == "train")
                        files.append(arrays)
                        sizes = {name: len(array) for name, array in arrays.items()}
                        log.write(json.dumps([sizes, block.counts + counts, block.remarks]) + "\n")
                    tell(split, start + len(entries))


def tell_read(parts: Path, count: int, progress: Progress) -> None:
    """Say how far shards are that others write."""
    found: dict[str, dict[str, int]] = {}
    for pattern in (f".*-of-{count}.*", f"[0-9]*-of-{count}"):  # in this order none is missed that is renamed meanwhile
        for path in parts.glob(pattern):
            with suppress(OSError, ValueError):  # just renamed, or just begun
                index = path.name.strip(".").partition("-")[0]
                found[index] = max(found.get(index, {}), _records(path), key=_sum)  # one may be begun again
    _tell(found.values(), count, _records(parts / DRAFT), progress)


def _tell(shards: Collection[Mapping[str, int]], count: int, draft: Mapping[str, int], progress: Progress) -> None:
    """Say how many records each shard has read, in the mean: it reads them all, and tokenises its own blocks."""
    total = next((_sum({**each, **draft}) for each in shards if "train" in each), None)
    progress("tokenising", sum(map(_sum, shards)) // count, total)


def _sum(records: Mapping[str, int]) -> int:
    return sum(records.values())


def merge(job: Job, parts: Path, count: int, folder: Path, progress: Progress = nothing) -> dict[str, object]:
    """Join the shards into the files of `folder`; what the manifest says of them.

    Raises:
        UserError: a shard is missing, or as `dialog.data.preparation.checks`.
    """
    shards = [parts / f"{index}-of-{count}" for index in range(count)]
    for index, shard in enumerate(shards):
        if not shard.is_dir():
            raise UserError(f"{parts}: shard {index} of {count} is missing; run it with --shard {index}/{count}")
    tokenizer = Tokenizer.load(parts / DRAFT / TOKENIZER)
    tokenizer.save(folder / TOKENIZER)
    splits: dict[str, tuple[Counter[str], Remarks]] = {}
    total = _sum(_records(shards[0]))
    for split in SPLITS:
        before = sum(counts["dialogues read"] for counts, _ in splits.values())
        tell = partial(_tell_joined, progress, before, total)
        splits[split] = _joined(shards, folder, split, len(tokenizer), tell)
    joined = {split: counts["dialogues read"] for split, (counts, _) in splits.items()}
    for each in (parts / DRAFT, *shards):
        check_records(_records(each), joined)
    for split, (counts, remarks) in splits.items():
        check_examples(job.corpus, split, counts, remarks)
        check_counts(split, counts, remarks, job.max_dropped)
        check_ids(job.corpus, split, array_file(folder, split, MARKS))
        write_classes(folder, split)
    about = {split: dict(sorted((+counts).items())) for split, (counts, _) in splits.items()}
    said = {split: remarks for split, (_, remarks) in splits.items()}
    return {"vocabulary": len(tokenizer), "tokenizer": tokenizer.fingerprint, "splits": about, "remarks": said}


def _joined(
    shards: Sequence[Path], folder: Path, split: str, vocabulary: int, tell: Callable[[int], None]
) -> tuple[Counter[str], Remarks]:
    """Append the blocks of all shards in their order, counted from the split's beginning."""
    counts, remarks = Counter[str](), Remarks()
    readers = cycle([_written(shard, split, vocabulary) for shard in shards])
    with Appender(folder, split, vocabulary) as files:
        files.append({"offsets": np.zeros(1)})
        ids = turns = 0
        while block := next(next(readers), None):
            arrays, found, said = block
            counts += Counter(found)
            remark(remarks, said)
            files.append({**arrays, "offsets": arrays["offsets"] + ids, "examples": arrays["examples"] + turns})
            ids, turns = ids + len(arrays["ids"]), turns + len(arrays["speakers"])
            tell(counts["dialogues read"])
    return counts, remarks


def _tell_joined(progress: Progress, before: int, total: int, read: int) -> None:
    progress("joining", before + read, total)


def _written(shard: Path, split: str, vocabulary: int) -> Iterator[tuple[Arrays, dict[str, int], Remarks]]:
    """The blocks of a shard as `encode` made them, their counts and remarks."""
    with ExitStack() as stack:
        files = {name: stack.enter_context(array_file(shard, split, name).open("rb")) for name in dtypes(vocabulary)}
        for line in stack.enter_context(_log(shard, split).open()):
            sizes, counts, remarks = json.loads(line)
            arrays = {name: np.fromfile(files[name], kind, sizes[name]) for name, kind in dtypes(vocabulary).items()}
            yield arrays, counts, remarks


def _records(folder: Path) -> dict[str, int]:
    return dict(json.loads((folder / RECORDS).read_text()))


def _log(shard: Path, split: str) -> Path:
    return shard / f"{split}.blocks.jsonl"
