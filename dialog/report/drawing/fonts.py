"""Fonts of labels in images: Pillow's built-in one, and those of the system for other scripts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont, features

from dialog.escaping import one_line
from dialog.report.terminal import truncate

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

SIZE = 13
FALLBACKS = (
    *(
        "DejaVuSans.ttf",
        "NotoSans-Regular.ttf",
        "NotoSansCJK-Regular.ttc",
        "NotoSansArabic-Regular.ttf",
    ),
    *("NotoSansHebrew-Regular.ttf", "NotoSansDevanagari-Regular.ttf", "NotoSansThai-Regular.ttf"),
    *("NotoEmoji-Regular.ttf", "Symbola.ttf"),
    *("Arial Unicode.ttf", "PingFang.ttc", "AppleSDGothicNeo.ttc", "Hiragino Sans GB.ttc"),  # macOS
    # Windows
    *(
        "arial.ttf",
        "msyh.ttc",
        "malgun.ttf",
        "meiryo.ttc",
        "nirmala.ttf",
        "seguisym.ttf",
        "seguiemj.ttf",
    ),
)
"""Files that Pillow searches for in the system's font folders."""
UNASSIGNED = "\U0010ffff"
RIGHT_TO_LEFT = ("R", "AL")


class Label(NamedTuple):
    """One line of text and the font that has its characters."""

    text: str
    font: Font

    @property
    def width(self) -> int:
        """Width in pixels."""
        return math.ceil(self.font.getlength(self.text))

    @lru_cache(maxsize=512)  # noqa: B019 - labels are values; a training draws the same ones at each validation
    def mask(self) -> Image.Image:
        """Draw the label as a mask, rotated by 90 degrees unless it is one character."""
        mask = Image.new("L", (max(1, self.width), 18))
        ImageDraw.Draw(mask).text((0, 13), self.text, fill=255, font=self.font, anchor="ls")
        return mask.rotate(90, expand=True) if len(self.text) > 1 else mask


@lru_cache(maxsize=4096)
def label_of(text: str, *, limit: int) -> Label:
    r"""Return a label of at most `limit` columns in the font that has most of its characters; the
    others are escaped.

    Without a font of the system, the characters that the built-in font lacks are written as
    `\u4f60`, and so are letters of right-to-left scripts if Pillow cannot order and join them. The
    tokenizer's mark of a space becomes an underscore.
    """
    line = one_line(text).replace("▁", "_")
    font = next((font for font in fonts() if all(has(font, char) for char in line)), None)
    if font is None:
        font = max(fonts(), key=lambda font: sum(has(font, char) for char in line))
    escaped = "".join(char if has(font, char) else _escape(char) for char in line)
    return Label(truncate(escaped, limit), font)


def labels_of(texts: Sequence[str], *, limit: int) -> list[Label]:
    """Return the label of each text."""
    return [label_of(text, limit=limit) for text in texts]


@cache
def fonts() -> tuple[Font, ...]:
    """Return the built-in font and the installed ones of `FALLBACKS`."""
    return (
        ImageFont.load_default(SIZE),
        *(font for name in FALLBACKS if (font := _installed(name)) is not None),
    )


@cache
def has(font: Font, char: str) -> bool:
    """Return whether a font has a character and Pillow can place it."""
    if unicodedata.bidirectional(char) in RIGHT_TO_LEFT and not features.check("raqm"):
        return False
    plain = _without_shaping(font)
    return char.isspace() or bytes(plain.getmask(char)) != bytes(plain.getmask(UNASSIGNED))


@cache
def _without_shaping(font: Font) -> Font:
    """Return the font with one glyph per character; shaping would draw a circle below a single
    combining mark.
    """
    if not isinstance(font, ImageFont.FreeTypeFont):
        return font
    return font.font_variant(layout_engine=ImageFont.Layout.BASIC)


def _installed(name: str) -> Font | None:
    try:
        return ImageFont.truetype(name, SIZE)
    except OSError:
        return None


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
