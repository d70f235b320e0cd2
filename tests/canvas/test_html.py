"""Pieces of HTML: text is escaped, and empty columns are left out."""

from jaxenv.canvas import _html


def test_text_is_escaped():
    hostile = '<img src=x onerror="alert(1)">'
    page = _html.page(hostile, [hostile], _html.table(hostile, (hostile,), [(hostile,)]))
    assert page.count("&lt;img") == 5
    assert "<img" not in page
    assert 'onerror="' not in page


def test_a_column_without_entries_is_left_out():
    table = _html.table("title", ("a", "b", "c"), [("1", "", 2), ("", "", 3)])
    assert "<th>b</th>" not in table
    assert table.count("<td>") == 4
    assert "<td>1</td><td>2</td>" in table
    assert _html.table("title", ("a",), []) == ""


def test_colours_follow_the_page():
    page = _html.page("a", [])
    assert "color:inherit" in page
    assert "white" not in page.replace("white-space", "")
    assert "#" not in page
