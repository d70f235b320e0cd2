"""Builds the HTML that notebooks show for objects of this package: a title and tables, which load nothing."""

from collections.abc import Iterable, Sequence
from html import escape

# Colours are translucent or inherited, so that light and dark pages are readable.
_STYLE = (
    ".jaxenv{font-size:13px;color:inherit;max-width:60em}"
    ".jaxenv caption{font-weight:600;text-align:left;color:inherit;padding:.8em 0 .2em}"
    ".jaxenv table,.jaxenv tr{border:0;border-collapse:collapse;background:none!important;color:inherit}"
    ".jaxenv :is(th,td){text-align:left!important;vertical-align:top;padding:2px 18px 2px 0;white-space:pre-wrap;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.25)}.jaxenv th{font-weight:400;opacity:.7}"
    ".jaxenv td{font:12px ui-monospace,Menlo,Consolas,monospace}"
)


def page(title: str, facts: Iterable[str], *tables: str) -> str:
    """Returns the output for one object: its title, facts about it, and tables."""
    head = f"<strong>{escape(title)}</strong> {escape(' · '.join(filter(None, facts)))}"
    return f'<div class="jaxenv"><style>{_STYLE}</style>{head}{"".join(tables)}</div>'


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table; without rows nothing. A column without a single entry is left out."""
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    kept = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    head = "".join(f"<th>{escape(columns[i])}</th>" for i in kept)
    body = "".join(f"<tr>{''.join(f'<td>{row[i]}</td>' for i in kept)}</tr>" for row in cells)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>" if cells else ""
