from __future__ import annotations

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
