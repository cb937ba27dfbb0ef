from __future__ import annotations

import io

import pytest

from dialog.report.progress import ProgressBars


def test_a_log_file_has_a_line_per_start_and_interval(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([100.0, 100.0, 110.0, 130.0, 140.0, 170.0, 200.0, 200.0, 230.0])
    monkeypatch.setattr("dialog.report.progress.time.monotonic", lambda: next(clock))
    with ProgressBars(every_seconds=30) as bars:
        for done, total in ((0, None), (5, None), (1000, None), (2000, 8000), (3500, 8000)):
            bars.show("tokenising", done, total)
        for done in (0, 10):
            bars.show("joining", done, 10)
    assert capsys.readouterr().err.splitlines() == [
        "tokenising",
        "tokenising: 1,000",
        "tokenising: 3,500 of 8,000, 01:30 left",
        "joining",
        "joining: 10 of 10",
    ]


def test_a_bar_leaves_out_whole_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("tqdm.std._screen_shape_wrapper", lambda: lambda _: (100, 40))
    figures = "epoch 17, loss 0.604, tokens/s 1,234, validation 0.543"
    for width in (20, 45, 100, 200):
        monkeypatch.setattr(
            "tqdm.std._screen_shape_wrapper", lambda width=width: lambda _: (width, 40)
        )
        with ProgressBars() as bars:
            bars.show("training", 635, 1520, lambda: f"at most 01:47 left, {figures}", fraction=0.4)
        line = terminal.getvalue().rstrip().rpartition("\r")[2]
        assert line.endswith(("01:47 left", "loss 0.604", "1,234", "0.543")) or width < 60, line
