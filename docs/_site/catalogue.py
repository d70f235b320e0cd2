"""The catalogue: a page for each id, from the docstring of its module, grids of pictures that link to them, a table.

The pages on GitHub show the same pictures without links: lines of ``<img ... alt="ID">`` become a grid here. They name
the command that prints the table of all ids; a comment with this command becomes the table here.
"""

import contextlib
import functools
import html
import io
import pathlib
import posixpath
import re
import textwrap
from collections.abc import Callable, Iterable

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import jaxenv
from jaxenv import cli, specs
from jaxenv.cli._spec_sheet import Argument, as_written, families, family, plain, spec_sheet
from jaxenv.training import _algorithms, baselines, presets

ROOT = pathlib.Path(__file__).parents[2]
PICTURES = re.compile(r'(?:<img width="128" alt="[^"]*"\s+src="[^"]*">\n?)+')
LIST = ["list", "--bytes", "--markdown"]
# The hand-written pages of families, which open the families' sections.
FAMILY_PAGES = {
    "Toy text": "toy-text",
    "Grid worlds": "grid",
    "MinAtar": "minatar",
    "bsuite": "bsuite",
    "POPGym": "popgym",
    "Tasks from papers": "misc",
    "Board games": "board",
    "Multi-agent particles": "particle",
    "Probes of learners": "probes",
}


def id_page(id: str) -> str:
    """Where the site has the page of an id."""
    return f"catalogue/{family(id).lower().replace(' ', '-')}/{id}.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fills the section of the environments in the navigation."""
    section = next(child["Environments"] for child in config.nav if "Environments" in child)
    groups: list[dict] = []
    for title, ids in families(jaxenv.ids()).items():
        about = [{"About": f"catalogue/{FAMILY_PAGES[title]}.md"}] if title in FAMILY_PAGES else []
        groups.append({title: [*about, *({id: id_page(id)} for id in ids)]})
    place = section.index("catalogue/*")
    section[place : place + 1] = groups
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    tables = {
        "listing": _rows(listing()),
        "parity": _rows((ROOT / "docs/evidence/parity.md").read_text()),
        "conformance": _rows((ROOT / "docs/evidence/conformance.md").read_text()),
        "results": _results("docs/evidence/training-results.md"),
    }
    for id in jaxenv.ids():
        files.append(File.generated(config, id_page(id), content=_page(id, **tables)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns lines of pictures into a grid with links, and the comment with a command into the table that it prints."""
    here = posixpath.dirname(page.file.src_uri)

    def grid(match: re.Match) -> str:
        return pictures(re.findall(r'alt="([^"]*)"', match[0]), here)

    if here != "catalogue":
        return markdown
    command = f"<!-- jaxenv {' '.join(LIST)} -->"
    return PICTURES.sub(grid, markdown).replace(command, listing() if command in markdown else "")


@functools.cache
def listing() -> str:
    """The table of all ids."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cli.main(LIST)
    return printed.getvalue()


def pictures(ids: Iterable[str], here: str) -> str:
    """A grid of the pictures of environments, in HTML, for a page in the folder ``here`` of the site."""
    cards = []
    for id in ids:
        image = posixpath.relpath(f"pictures/catalogue/{id}.png", here)
        target = posixpath.relpath(id_page(id), here).removesuffix(".md") + ".html"
        cards.append(f'<a href="{target}"><img src="{image}" alt="{id}" loading="lazy"><span>{id}</span></a>')
    return f'<div class="pictures">{"".join(cards)}</div>\n'


# --- the page of an id ------------------------------------------------------------------------------------------------


def _page(id: str, listing: dict, parity: dict, conformance: dict, results: dict) -> str:
    sheet, spec = spec_sheet(id), jaxenv.spec(id)
    up = "../../.."  # from docs/catalogue/family to the repository
    [[_, observation, action, limit, size]] = listing[id]
    known = {argument.name for argument in (*sheet.params, *sheet.options)}
    about = FAMILY_PAGES.get(sheet.family)
    facts = [
        ("Observation", f"`{observation}`"),
        ("Action", f"`{action}`"),
        ("Time limit", f"{limit} steps" if limit != "none" else "none: the task ends every episode"),
        ("Solved at", f"a mean return of {spec.reward_threshold:g}" if spec.reward_threshold is not None else ""),
        ("State", f"{size} bytes per lane"),
        ("Stack", f"`{jaxenv.make(id)!r}`"),
        ("Class", f"[`{_class(id)}`]({up}/{_source(id)})"),
        ("Family", f"[{sheet.family}](../{about}.md)" if about else sheet.family),
    ]
    parts = [
        f"# {id}",
        sheet.summary,
        f'<div class="sheet" markdown="1">\n\n![{id} after a few random steps](../../pictures/catalogue/{id}.png)'
        f'{{.environment width="256" height="256"}}\n\n{_table(["", ""], [f for f in facts if f[1]])}\n\n</div>',
        f'```python\nimport jaxenv\n\nenv = jaxenv.make("{id}", num_envs=4096)\n```',
        "## Specification",
        *[_paragraph(paragraph, up, known) for paragraph in sheet.paragraphs],
        *_arguments("Params", sheet.params, "A number, or one number per lane, as a keyword of `jaxenv.make`."),
        *_arguments("Options", sheet.options, "Keywords of `jaxenv.make`."),
        "## Evidence",
        _evidence(id, parity.get(id, []), *_checked(id, conformance)),
        "## Training",
        _training(id, results.get(id, [])),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rows(text: str) -> dict[str, list[list[str]]]:
    """The rows of the tables of a page by the id that their first cell names."""
    rows: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        if match := re.match(r"\| `(?:<.*<)?([\w-]+)>*` \|", line):
            rows.setdefault(match[1], []).append([cell.strip() for cell in line.strip("| ").split(" | ")])
    return rows


def _results(page: str) -> dict[str, list[list[str]]]:
    """The rows of the table of results by id. A row about the same policies follows that of its id."""
    rows: dict[str, list[list[str]]] = {}
    id = ""
    for line in (ROOT / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and (cells[0] in jaxenv.ids() or cells[0].startswith("same policies")):
            id = cells[0] if cells[0] in jaxenv.ids() else id
            rows.setdefault(id, []).append(cells if cells[0] == id else [id, cells[0], *cells[2:]])
    return rows


def _class(id: str) -> str:
    return jaxenv.spec(id).environment.__qualname__


def _source(id: str) -> str:
    """The path of the file that defines an environment."""
    return jaxenv.spec(id).environment.__module__.replace(".", "/") + ".py"


def _table(head: list[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "&#124;") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: str, known: Iterable[str] = ()) -> str:
    """The Markdown of a text in reStructuredText, with the names of params and options as code."""
    parts = re.split(r"(``?[^`]+``?)", text)
    names = "|".join(sorted((name for name in known if "_" in name), key=len, reverse=True))

    def marked(part: str) -> str:
        if part.startswith("`"):
            return f"`{plain(part)}`"
        part = re.sub(r"([*_\\[\]])", r"\\\1", html.escape(part, quote=False))
        return re.sub(rf"(?<!\w)({names})(?!\w)".replace("_", r"\\_"), _unescaped, part) if names else part

    return "".join(marked(part) for part in parts)


def _unescaped(match: re.Match) -> str:
    return "`" + match[0].replace("\\", "") + "`"


def _paragraph(text: str, up: str, known: Iterable[str]) -> str:
    """The Markdown of a paragraph: tables and drawings as they are written, links, and labels on lines of their own."""
    if as_written(text):
        return f"```text\n{plain(textwrap.dedent(text))}\n```"
    return _linked(re.sub(r"\n(?=[A-Z][\w ]*: )", "<br>\n", _text(text, known)), up)


def _arguments(title: str, arguments: Iterable[Argument], sentence: str) -> list[str]:
    arguments = list(arguments)
    if not arguments:
        return []
    # Columns without an entry are left out.
    columns: dict[str, Callable[[Argument], str]] = {
        "name": lambda a: f"`{a.name}`",
        "default": lambda a: f"`{_default(a.default)}`",
        "unit": lambda a: _text(a.unit).replace("^2", "²").replace("^3", "³"),
        "allowed": lambda a: _text(a.range),
        "meaning": lambda a: _text(a.description),
    }
    used = [name for name, cell in columns.items() if any(cell(a) for a in arguments)]
    return [f"## {title}", sentence, _table(used, [[columns[name](a) for name in used] for a in arguments])]


def _default(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _linked(text: str, up: str) -> str:
    """Links of test files, DOIs and arXiv numbers."""
    text = re.sub(r"tests/(?:\w|\\_|/)+\.py", lambda m: _link(m[0].replace("\\", ""), up), text)
    text = re.sub(r"doi:(10\.[^\s,;]*[^\s,;.])", r"[doi:\1](https://doi.org/\1)", text)
    return re.sub(r"arXiv:(\d+\.\d+)", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def _link(path: str, up: str) -> str:
    return f"[{posixpath.basename(path)}]({up}/{path})" if (ROOT / path).exists() else f"`{path}`"


def _checked(id: str, conformance: dict[str, list[list[str]]]) -> tuple[str, list[str]]:
    """The id itself, or else another size of its class that was checked, and its row of the page on conformance."""
    same = (other for other in (id, *jaxenv.ids()) if _class(other) == _class(id) and _source(other) == _source(id))
    return next((other, conformance[other][0]) for other in same if other in conformance)


def _evidence(id: str, parity: list[list[str]], checked: str, conformance: list[str]) -> str:
    _, passed, failed, absent, opted_out, _ = conformance
    certificate = _table(["compared with", "states, one step each", "whole episodes"], [row[1:] for row in parity])
    none = "No row of the [parity table](../../evidence/parity.md): that page says what is compared instead."
    counts = [0 if cell == "-" else len(cell.split(", ")) for cell in (absent, opted_out)]
    of = f" of `{checked}`" if checked != id else ""
    properties = (
        f"[Conformance](../../evidence/conformance.md){of}: {passed} of {int(passed) + sum(counts)} properties hold, "
        f"{counts[0]} do not apply{f', {counts[1]} are opted out of ({opted_out})' if counts[1] else ''}, "
        f"{'none fails' if failed == '-' else failed + ' fail'}."
    )
    parity_page = "[Parity](../../evidence/parity.md) with the original:"
    return "\n\n".join([parity_page, certificate, properties] if parity else [none, properties])


def _training(id: str, results: list[list[str]]) -> str:
    """The film of a policy, the command that trains one, the presets with their results, and the baselines."""
    shipped = [algorithm for other, algorithm in baselines.baseline_ids() if other == id]
    tuned = {algorithm: settings[id] for algorithm, settings in presets.PRESETS.items() if id in settings}
    env, options = jaxenv.make(id), [""]
    if not isinstance(env.action_spec(), specs.Array):
        return "No learner of the library takes its action, which is a tree."
    if made := _algorithms.made_for(env):
        options = [*([] if env.turns else [""]), *(f" --algo {name}" for name in made)]
    elif env.num_agents > 1 and not tuned:
        lanes = 16 * env.num_agents
        options = [f" --set wrappers=AgentsAsLanes num_envs={lanes} num_eval_episodes={4 * lanes}"]
    commands = "\n".join(f"jaxenv train {id}{option}" for option in options)
    parts = [_film(id), f"```bash\n{commands}\n```"]
    for algorithm, settings in tuned.items():
        changed = ", ".join(f"`{name}={value!r}`" for name, value in settings.items())
        parts.append(
            f"The preset of `--algo {algorithm}`{', the default' if algorithm == next(iter(tuned)) else ''}: {changed}."
        )
    if not tuned:
        parts.append("It has no preset: set the [learner's fields](../../guides/training.md) by `--set`.")
    if results:
        head = [
            "learner",
            "steps",
            "return, ten seeds",
            "95% interval",
            "wall time",
            "published",
            "seeds that reach it",
        ]
        parts += [_table(head, [row[1:] for row in results]), "[All results](../../evidence/training-results.md)"]
    if shipped:
        named = " and ".join(f"`baseline:{id}:{algorithm}`" for algorithm in shipped)
        parts += [
            f"{named}: the policy of the best seed ships with the library.",
            f"```bash\njaxenv watch baseline:{id}\njaxenv eval baseline:{id} --episodes 1000\n```",
        ]
    return "\n\n".join(part for part in parts if part)


def _film(id: str) -> str:
    if not (ROOT / f"docs/pictures/films/{id}.gif").exists():
        return ""
    return f"![{id}, played by the policy that ships with the library](../../pictures/films/{id}.gif)"
