"""A notebook as a page: its Markdown, its code and its stored outputs. Nothing is executed."""

import base64
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

STORED: dict[str, list[str]] = {}  # HTML outputs of each page, which must not pass through Markdown


def page(notebook: dict[str, Any], name: str, files: Files, config: MkDocsConfig) -> str:
    """Markdown of a notebook; its pictures are added to ``files``, its HTML outputs to ``STORED``."""
    stem, parts = name.removesuffix(".md"), []
    STORED[name] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"\$([^$\n]+)\$", _formula, source))
        elif cell["cell_type"] == "code" and source:
            parts.append(f"```python\n{source}\n```")
            parts += [_output(output, stem, len(parts) + n, files, config) for n, output in enumerate(cell["outputs"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def with_outputs(html: str, name: str) -> str:
    """The HTML of a page with its stored HTML outputs in their places."""
    return re.sub(r'<div data-output="(\d+)"></div>', lambda m: STORED[name][int(m[1])], html)


def _formula(match: re.Match) -> str:
    """A short formula without LaTeX."""
    text = match[1].replace(r"\dots", "…").replace(r"\gamma", "&gamma;").replace(r"\cdot", "·")
    return re.sub(r"\^(\w+|\{[^}]*\})", lambda m: f"<sup>{m[1].strip('{}')}</sup>", text)


def _output(output: dict[str, Any], stem: str, number: int, files: Files, config: MkDocsConfig) -> str:
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    data = output.get("data", {})
    for kind in ("image/gif", "image/png", "image/svg+xml"):
        if kind in data:
            place, content = f"{stem}-{number}.{kind[6:9]}", "".join(data[kind])
            files.append(File.generated(config, place, content=content if "svg" in kind else base64.b64decode(content)))
            return f"![output]({place.rpartition('/')[2]}){{.output}}"
    if "text/html" in data:
        STORED[f"{stem}.md"].append("".join(data["text/html"]))
        return f'<div class="output"><div data-output="{len(STORED[f"{stem}.md"]) - 1}"></div></div>'
    return _text("".join(data.get("text/plain", "")))


def _text(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip()
    return f"```{{.text .output}}\n{plain}\n```" if plain else ""
