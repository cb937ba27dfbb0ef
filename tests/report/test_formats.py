from __future__ import annotations

from collections.abc import Callable

import pytest

from dialog.report.drawing.axes import tick_label
from dialog.report.formats.metrics import METRIC_DISPLAYS, metric_display
from dialog.report.formats.numbers import decimals, duration, magnitude, percent
from dialog.report.tables import interval_text, p_text, signed, spread_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.96, "10.0 s"),
        (45.4, "45 s"),
        (59.7, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.8, "1 h 00 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_every_metric_has_a_label_and_a_definition() -> None:
    assert all(metric.definition.endswith(".") for metric in METRIC_DISPLAYS.values())
    assert len({metric.label for metric in METRIC_DISPLAYS.values()}) == len(METRIC_DISPLAYS)
    assert metric_display("bits_per_byte").format(1.23456) == "1.235"


@pytest.mark.parametrize(
    ("value", "text"), [(1.5, "1.50"), (1234567.0, "1,234,567.00"), (2.6e20, "2.6e+20")]
)
def test_large_numbers_are_short(value: float, text: str) -> None:
    assert metric_display("perplexity_word").format(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.52e6, "8.52 M"),
        (6.195e6, "6.20 M"),
        (999_600.0, "1.00 M"),
        (85_170_000_000.0, "85.2 G"),
        (512.0, "512"),
    ],
)
def test_magnitudes_have_three_digits_and_a_prefix(value: float, text: str) -> None:
    assert magnitude(value) == text


def test_a_unit_follows_the_prefix() -> None:
    assert [magnitude(value, "FLOPs") for value in (85.17e9, 512.0)] == ["85.2 GFLOPs", "512 FLOPs"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (2000, "2000"),
        (-15_000, "-15k"),
        (999_999.9, "1M"),
        (2.5e9, "2.5G"),
        (2e15, "2P"),
        (0, "0"),
    ],
)
def test_ticks_of_axes(value: float, text: str) -> None:
    assert tick_label(value) == text


def test_differences_have_a_sign_and_percentages_are_points() -> None:
    assert [signed(value, decimals(3)) for value in (-0.0214, 0.5, -0.0004)] == [
        "−0.021",
        "+0.500",
        "0.000",
    ]
    assert signed(-0.013, percent) == "−1.3 pp"
    assert [decimals(3)(value) for value in (-0.0534, -0.0004, -0.0)] == [
        "−0.053",
        "0.000",
        "0.000",
    ]
    assert interval_text([-0.034, 0.021], decimals(3)) == "[−0.034, +0.021]"
    assert interval_text([-0.034, 0.021], percent) == "[−3.4, +2.1] pp"
    assert interval_text([], percent) == "–"


@pytest.mark.parametrize(
    ("interval", "to_text", "text"),
    [
        ([0.000867, 0.000933], decimals(4), "[+0.00087, +0.00093]"),
        ([-0.0133, -0.0021], decimals(2), "[−0.013, −0.0021]"),
        ([0.11812, 0.11834], decimals(3), "[+0.1181, +0.1183]"),
        ([0.0001, 0.012], percent, "[+0.01, +1.2] pp"),
        ([-0.0001, 0.012], percent, "[0.0, +1.2] pp"),
        ([0.2, 0.2], decimals(1), "[+0.2, +0.2]"),
        ([0.1 + 0.2, 0.3], decimals(3), "[+0.300, +0.300]"),
    ],
)
def test_limits_on_one_side_of_zero_are_told_apart(
    interval: list[float], to_text: Callable[[float], str], text: str
) -> None:
    assert interval_text(interval, to_text) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "< 0.001"), (0.00099, "< 0.001"), (0.034, "0.034"), (0.5, "0.50"), (None, "–")],
)
def test_p_values(p: float | None, text: str) -> None:
    assert p_text(p) == text


def test_spread() -> None:
    assert spread_text(0.412, 0.01, percent) == "41.2 ± 1.0 %"
    assert spread_text(0.412, None, percent) == "41.2 %"
