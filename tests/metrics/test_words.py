from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.metrics.words import detect_language, words


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_text_with_spaces_is_split_at_white_space(text: str) -> None:
    assert words(text) == text.split()


def test_letters_of_scripts_without_spaces_are_words() -> None:
    assert words("我想订 Hilton酒店，谢谢!") == [
        "我",
        "想",
        "订",
        "Hilton",
        "酒",
        "店",
        "，",
        "谢",
        "谢",
        "!",
    ]
    assert words("コーヒー下さい") == list("コーヒー下さい")
    assert words("ไปไหน") == list("ไปไหน")
    assert words("안녕 하세요") == ["안녕", "하세요"]  # Korean has spaces


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["你好，请问有什么可以帮您？", "我要去 KFC"], "zh"),
        (["漢字仮名交じり文です", "ええ"], "ja"),
        (["สวัสดีครับ"], "th"),
        (["The word 你好 means hello in Chinese"], "und"),
        (["Guten Tag", "안녕 하세요"], "und"),
        (["?!", "。"], "und"),
        ([], "und"),
    ],
)
def test_languages_without_spaces_are_detected(texts: list[str], language: str) -> None:
    assert detect_language(texts) == language
