"""Pieces of HTML: text is escaped, and empty columns are left out."""

from jaxenv.canvas import _html


def test_text_is_escaped():
    hostile = '<img src=x onerror="alert(1)">'
    pieces = [
        *(_html.code(hostile), _html.head(hostile, hostile), _html.note(hostile), _html.badge(hostile, "#000000")),
        *(_html.section(hostile), _html.table((hostile,), [("cell",)])),
    ]
    for piece in pieces:
        assert "<img" not in piece
        assert 'onerror="' not in piece


def test_a_column_without_entries_is_left_out():
    table = _html.table(("a", "b", "c"), [("1", "", "2"), ("", "", "3")])
    assert "<th>b</th>" not in table
    assert table.count("<td>") == 4
    assert "<td>1</td><td>2</td>" in table


def test_colours_follow_the_page():
    page = _html.page(_html.table(("a",), [("1",)]))
    assert "currentColor" in page or "color:inherit" in page
    assert "white" not in page.replace("white-space", "")
    assert "#fff" not in page
