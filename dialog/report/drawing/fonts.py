"""Fonts of labels in images: Pillow's built-in one, and those of the system for other scripts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import NamedTuple

from PIL import Image, ImageChops, ImageDraw, ImageFont, features

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
COLOURED = {"NotoColorEmoji.ttf": 109, "Apple Color Emoji.ttc": 160}
"""Fonts of coloured pictures, and the only size of each that Pillow opens."""
HEIGHT = 18
BASELINE = 13
"""Pixels of a line, and of its part above the baseline."""
UNASSIGNED = "\U0010ffff"
RIGHT_TO_LEFT = ("R", "AL")


class LabelPart(NamedTuple):
    """Characters of a label and the font that has them."""

    text: str
    font: Font

    @property
    def scale(self) -> float:
        """Factor by which the characters of a coloured font are made smaller."""
        size = getattr(self.font, "size", SIZE)
        return BASELINE / size if size > SIZE else 1.0

    @property
    def width(self) -> float:
        """Width in pixels."""
        return self.font.getlength(self.text) * self.scale

    def mask(self) -> Image.Image:
        """Draw the characters as a mask of one line; a coloured picture by its darkness."""
        scale = self.scale
        width = max(1, math.ceil(self.width))
        baseline = (0, BASELINE / scale)
        if scale == 1.0:
            mask = Image.new("L", (width, HEIGHT))
            draw = ImageDraw.Draw(mask)
            draw.text(baseline, self.text, fill=255, font=self.font, anchor="ls")
            return mask
        picture = Image.new("RGBA", (math.ceil(width / scale), math.ceil(HEIGHT / scale)))
        draw = ImageDraw.Draw(picture)
        draw.text(baseline, self.text, font=self.font, anchor="ls", embedded_color=True)
        picture = picture.resize((width, HEIGHT), Image.Resampling.LANCZOS)
        darkness = picture.convert("RGB").convert("L").point(lambda value: 255 - 0.75 * value)
        return ImageChops.multiply(picture.getchannel("A"), darkness)


class Label(NamedTuple):
    """One line of text, in parts of one font each."""

    parts: tuple[LabelPart, ...]

    @property
    def text(self) -> str:
        """The characters of all parts."""
        return "".join(part.text for part in self.parts)

    @property
    def width(self) -> int:
        """Width in pixels."""
        return math.ceil(sum(part.width for part in self.parts))

    @lru_cache(maxsize=512)  # noqa: B019 - labels are values; a training draws the same ones at each validation
    def mask(self) -> Image.Image:
        """Draw the label as a mask."""
        mask = Image.new("L", (max(1, self.width), HEIGHT))
        left = 0.0
        for part in self.parts:
            mask.paste(255, (int(left), 0), part.mask())
            left += part.width
        return mask

    def turned(self) -> Image.Image:
        """Draw the label as a mask, rotated by 90 degrees unless it is one character."""
        return self.mask().rotate(90, expand=True) if len(self.text) > 1 else self.mask()


@lru_cache(maxsize=4096)
def label_of(text: str, *, limit: int) -> Label:
    r"""Return a label of at most `limit` columns in the font that has most of its characters; the
    others are in the first font that has them.

    Without a font of the system, an emoji that the built-in font lacks is written by its name, and
    another character as `\u4f60`; so are letters of right-to-left scripts if Pillow cannot order
    and join them. The tokenizer's mark of a space becomes an underscore.
    """
    line = one_line(text).replace("▁", "_")
    font = next((font for font in fonts() if all(has(font, char) for char in line)), None)
    if font is None:
        font = max(fonts(), key=lambda font: sum(has(font, char) for char in line))
    order = (font, *fonts())
    shown = truncate(
        "".join(char if _font_of(char, order) else _escape(char) for char in line), limit
    )
    fonts_of_text = groupby(shown, lambda char: _font_of(char, order) or font)
    return Label(tuple(LabelPart("".join(chars), own) for own, chars in fonts_of_text))


def labels_of(texts: Sequence[str], *, limit: int) -> list[Label]:
    """Return the label of each text."""
    return [label_of(text, limit=limit) for text in texts]


@cache
def fonts() -> tuple[Font, ...]:
    """Return the built-in font and the installed ones of `FALLBACKS`."""
    return (
        ImageFont.load_default(SIZE),
        *(font for name in FALLBACKS if (font := _installed(name, SIZE)) is not None),
        *(font for name, size in COLOURED.items() if (font := _installed(name, size)) is not None),
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


def _installed(name: str, size: int) -> Font | None:
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return None


def _font_of(char: str, order: Sequence[Font]) -> Font | None:
    return next((font for font in order if has(font, char)), None)


def _escape(char: str) -> str:
    if unicodedata.category(char) == "So" and (name := unicodedata.name(char, "")):
        return f":{name.lower()}:"
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
