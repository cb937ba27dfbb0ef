"""Table of the official download sources of corpora: addresses, licences, checksums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

CHECKSUMS = Path(__file__).with_name("checksums")
"""One list per corpus of many files; each line is a checksum, two spaces and a path."""
GITHUB = "https://raw.githubusercontent.com"
PARLAI = "http://parl.ai/downloads"


@dataclass(frozen=True)
class RemoteFile:
    """A file to download.

    Args:
        addresses: Its URLs; each is tried until one succeeds.
        checksum: SHA-256 (64 hexadecimal digits), or object id in a git repository (40 digits).
        name: Path in the corpus folder; "" for an archive, whose `members` are extracted instead.
        members: Patterns of the members to extract from an archive, as `archives.unpack` defines
            them.
    """

    addresses: tuple[str, ...]
    checksum: str
    name: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class DownloadSource:
    """The official source of a corpus.

    Args:
        licence: The publisher's licence, in short.
        page: Web page of the corpus.
        holds: Files that the corpus folder must contain.
        languages: ISO 639 codes.
        root: URL prefix of the files listed in `checksums/<corpus>.txt`, if there is such a list.
        files: Further files. A source without root and files has to be downloaded manually.
    """

    licence: str
    page: str
    holds: str
    languages: tuple[str, ...] = ("en",)
    root: str = ""
    files: tuple[RemoteFile, ...] = ()

    @property
    def automatic(self) -> bool:
        """True if the corpus can be downloaded without manual steps."""
        return bool(self.root or self.files)


def all_files(corpus: str, source: DownloadSource) -> list[RemoteFile]:
    """Return the files of a corpus, including those of its checksum list."""
    if not source.root:
        return list(source.files)
    lines = (CHECKSUMS / f"{corpus}.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split("  ", 1) for line in lines)
    return [
        *source.files,
        *(RemoteFile((source.root + path,), checksum, path) for checksum, path in rows),
    ]


DOWNLOADS: Mapping[str, DownloadSource] = MappingProxyType(
    {
        "cornell": DownloadSource(
            licence="none stated, for research",
            page="https://www.cs.cornell.edu/~cristian/Cornell_Movie-Dialogs_Corpus.html",
            holds="movie_lines.txt and movie_conversations.txt",
            files=(
                RemoteFile(
                    ("https://www.cs.cornell.edu/~cristian/data/cornell_movie_dialogs_corpus.zip",),
                    "3bde8a571f615201bc2d2453e22878090719638592f774720eddec739de8c900",
                    members=("movie_*.txt",),
                ),
            ),
        ),
        "crosswoz": DownloadSource(
            licence="Apache 2.0",
            page="https://github.com/thu-coai/CrossWOZ (data/crosswoz)",
            holds="train.json, val.json and test.json",
            languages=("zh",),
            files=tuple(
                RemoteFile(
                    (
                        (
                            f"{GITHUB}/thu-coai/CrossWOZ/df82c9fdff91b9b130f2d6b89110d3870ba6260e/data/crosswoz"
                            f"/{split}.json.zip"
                        ),
                    ),
                    checksum,
                    members=(f"{split}.json",),
                )
                for split, checksum in (
                    ("train", "57eb9cbd004a2e59f301f9e1bdc5500ddf2a98ef"),
                    ("val", "b2b717990f6f0a1c98daaf5dc465e61d42f7de69c0d31e88e674275b1f34c94c"),
                    ("test", "e57703894995211bba8638f130dc7df81e8992b71f3c05c10022ad23d6ca5310"),
                )
            ),
        ),
        "dailydialog": DownloadSource(
            licence="CC BY-NC-SA 4.0: not for commercial use",
            page="http://yanran.li/dailydialog",
            holds="train/dialogues_train.txt and its siblings",
            files=(
                RemoteFile(
                    (
                        "http://yanran.li/files/ijcnlp_dailydialog.zip",
                        "https://web.archive.org/web/20220516002703id_/http://yanran.li/files/ijcnlp_dailydialog.zip",
                    ),
                    "c641e88cbf21fd7c1b57289387f9107d33fe8685a2b37fe8066b82776535ea89",
                    members=tuple(
                        f"{split}.zip!{split}/dialogues_*.txt"
                        for split in ("train", "validation", "test")
                    ),
                ),
            ),
        ),
        "empathetic": DownloadSource(
            licence="CC BY-NC 4.0: not for commercial use",
            page="https://github.com/facebookresearch/EmpatheticDialogues",
            holds="train.csv, valid.csv and test.csv",
            files=(
                RemoteFile(
                    (
                        "https://dl.fbaipublicfiles.com/parlai/empatheticdialogues/empatheticdialogues.tar.gz",
                        f"{PARLAI}/empatheticdialogues/empatheticdialogues.tar.gz",
                    ),
                    "56f234d77b7dd1f005fd365bb17769cfe346c3c84295b69bc069c8ccb83be03d",
                    members=("*.csv",),
                ),
            ),
        ),
        "kdconv": DownloadSource(
            licence="Apache 2.0",
            page="https://github.com/thu-coai/KdConv (data)",
            holds="film/train.json and its siblings",
            languages=("zh",),
            root=f"{GITHUB}/thu-coai/KdConv/653db76432de09a004ba708a68f8bbd5500e6bec/data/",
        ),
        "multi30k": DownloadSource(
            licence="none stated, for research",
            page="https://github.com/multi30k/dataset (data/task1/raw)",
            holds="train.de.gz, train.en.gz and their siblings",
            languages=("de", "en"),
            root=f"{GITHUB}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/",
        ),
        "multiwoz": DownloadSource(
            licence="MIT",
            page="https://github.com/budzianowski/multiwoz (data/MultiWOZ_2.2)",
            holds="train/dialogues_001.json and its siblings",
            root=f"{GITHUB}/budzianowski/multiwoz/01e689362833ce33427a771a21cefe253e8f5886/data/MultiWOZ_2.2/",
        ),
        "opensubtitles": DownloadSource(
            licence="none stated; the subtitles are their writers'",
            page="https://opus.nlpl.eu/OpenSubtitles (monolingual plain text)",
            holds="en.txt.gz",
        ),
        "personachat": DownloadSource(
            licence="none stated, for research",
            page="https://parl.ai/projects/personachat",
            holds="train_self_original.txt and its siblings",
            files=(
                RemoteFile(
                    (
                        "https://dl.fbaipublicfiles.com/parlai/personachat/personachat.tgz",
                        f"{PARLAI}/personachat/personachat.tgz",
                    ),
                    "507cf8641d333240654798870ea584d854ab5261071c5e3521c20d8fa41d5622",
                    members=("*.txt",),
                ),
            ),
        ),
        "selfdialogue": DownloadSource(
            licence="BSD 3-Clause",
            page="https://github.com/jfainberg/self_dialogue_corpus",
            holds="the repository's folder corpus and blocked_workers.txt",
            root=(
                f"{GITHUB}/jfainberg/self_dialogue_corpus/113a1b0ff10308f1227c13a4aaded9bc85577816/"
            ),
        ),
        "sgd": DownloadSource(
            licence="CC BY-SA 4.0",
            page="https://github.com/google-research-datasets/dstc8-schema-guided-dialogue",
            holds="train/dialogues_001.json and its siblings",
            root=(
                f"{GITHUB}/google-research-datasets/dstc8-schema-guided-dialogue"
                "/e852981ae34990f4358979625854259302feaa78/"
            ),
        ),
        "switchboard": DownloadSource(
            licence="LDC User Agreement, to be signed and paid for",
            page="https://catalog.ldc.upenn.edu/LDC97S62",
            holds="the transcripts",
        ),
        "switchboard_ms98": DownloadSource(
            licence="none stated, for research",
            page=(
                "https://isip.piconepress.com/projects/switchboard"
                " (switchboard_word_alignments.tar.gz)"
            ),
            holds="the folder swb_ms98_transcriptions",
        ),
        "taskmaster": DownloadSource(
            licence="CC BY 4.0",
            page="https://github.com/google-research-datasets/Taskmaster (TM-4-2024)",
            holds="the folder data of a release",
            root=f"{GITHUB}/google-research-datasets/Taskmaster/d92cb6af3005f1dc09c39e75e7daf4a04905e00b/TM-4-2024/",
        ),
        "topical_chat": DownloadSource(
            licence="CDLA-Sharing 1.0",
            page="https://github.com/alexa/Topical-Chat",
            holds="conversations/train.json and its siblings",
            root=f"{GITHUB}/alexa/Topical-Chat/7c939229cbcf6f55f6977b341a5a2f2fe982d53f/",
        ),
        "ubuntu": DownloadSource(
            licence="none stated",
            page="http://dataset.cs.mcgill.ca/ubuntu-corpus-1.0 (ubuntu_dialogs.tgz)",
            holds="dialogs/3/1.tsv and its siblings",
        ),
    }
)
"""Download sources by corpus name.

Checksums are those that ParlAI (facebookresearch/ParlAI, a29567f), Hugging Face's
`dataset_infos.json` (huggingface/datasets, 0197cdf and 040102f) or, for `cornell`,
JuliaText/CorpusLoaders.jl publish. Those of files of a repository were computed from it at the
commit in the URL.
"""
