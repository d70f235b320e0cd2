"""Progress bars: on a terminal with rich, and nowhere else."""

import sys

from jaxenv.rollout._progress import progress


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    with progress(2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(2) as advance:
        advance(1)
        print("a line of the table")
        advance(1, "return 12.5, 1,000 steps/s")
    out, err = capsys.readouterr()
    assert out == "a line of the table\n"  # not on the console of the bar
    assert "return 12.5, 1,000 steps/s" in err


def test_progress_starts_at_what_is_done(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(8, "evaluations", done=6):
        pass
    assert "75%" in capsys.readouterr().err


def test_progress_shows_nothing_without_rich(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress(2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")
