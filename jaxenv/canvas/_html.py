"""Builds the HTML that notebooks show for objects of this package.

Colours are translucent or inherited from the page, so that the output is readable on light and dark pages. Nothing is
loaded: each output contains its styles, under unique class names.
"""

import html
from collections.abc import Iterable, Sequence

# The colours of `jaxenv.canvas`.
BLUE, GREY, GOLD, RED, PURPLE = "#3a78c9", "#8e97a3", "#efbd43", "#dc4c48", "#8a67bd"

_STYLE = """
.jaxenv{font-size:13px;line-height:1.5;color:inherit;max-width:60em}
.jaxenv-head{font-size:15px;font-weight:600}
.jaxenv-note{opacity:.7}
.jaxenv-title{font-weight:600;margin:.8em 0 .2em}
.jaxenv table.jaxenv-table{border-collapse:collapse;border:0;margin:0;font-size:13px;color:inherit}
.jaxenv table.jaxenv-table tr{background:none!important;border:0}
.jaxenv table.jaxenv-table :is(th,td){text-align:left!important;vertical-align:top;padding:2px 18px 2px 0;
border:0;border-bottom:1px solid rgba(128,128,128,.25);background:none;max-width:30em;white-space:normal}
.jaxenv table.jaxenv-table th{font-weight:400;opacity:.7}
.jaxenv-code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px;white-space:pre-wrap;
overflow-wrap:anywhere}
.jaxenv-badge{border-radius:3px;padding:0 5px;font-size:12px;white-space:nowrap}
.jaxenv img{display:block;max-width:100%;height:auto;border-radius:4px}
""".strip().replace("\n", "")


def page(*parts: str) -> str:
    """Returns the output for one object."""
    return f'<div class="jaxenv"><style>{_STYLE}</style>{"".join(parts)}</div>'


def text(value: object) -> str:
    """Escapes the special characters of a value's text."""
    return html.escape(str(value))


def code(value: object) -> str:
    """Returns a value in a font of fixed width; nothing for an empty text."""
    # Not a code element, which pages draw as a box.
    return f'<span class="jaxenv-code">{text(value)}</span>' if str(value) else ""


def head(name: str, *facts: str) -> str:
    """Returns the first line: a name, and facts about it."""
    rest = f' <span class="jaxenv-note">{text(" · ".join(filter(None, facts)))}</span>' if any(facts) else ""
    return f'<div><span class="jaxenv-head">{text(name)}</span>{rest}</div>'


def note(sentence: str) -> str:
    """Returns a line of small print."""
    return f'<div class="jaxenv-note">{text(sentence)}</div>' if sentence else ""


def section(title: str, *parts: str) -> str:
    """Returns parts under a title."""
    return f'<div class="jaxenv-title">{text(title)}</div>{"".join(parts)}'


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns an HTML table of cells in HTML. A column without a single entry is left out."""
    rows = [tuple(row) for row in rows]
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    titles = "".join(f"<th>{text(columns[i])}</th>" for i in kept)
    body = "".join(f"<tr>{''.join(f'<td>{row[i]}</td>' for i in kept)}</tr>" for row in rows)
    return f'<table class="jaxenv-table"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'


def badge(word: str, colour: str) -> str:
    """Returns a word on a translucent colour."""
    return f'<span class="jaxenv-badge" style="background:{colour}55">{text(word)}</span>'
