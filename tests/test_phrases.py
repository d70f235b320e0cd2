"""Turns of phrase that pages and public docstrings avoid, each with a replacement."""

import ast
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
OWNERS = "its|their|your|our|my|his|her|whose|to|they|you|we|not|may|must|can|that|which"
# A regular expression of whole words: what to write instead.
PHRASES = {
    "(that|those) of": "the noun again: not 'its size and that of its key' but 'its size and the size of its key'",
    rf"(?!({OWNERS}) )\w+ own": "'its own' or 'your own', or leave it out",
    "one's own": "'your own'",
    "anew": "'again', or a verb with 're-'",
    "beside": "'next to' or 'compared with'",
    "(is|are|has|have|needs?|makes?) none": "'is not a ...', 'has no ...'",
    "looks? whether": "'checks whether'",
    "dear(er|est)?": "'expensive', 'costly'",
    "as far as": "'where', 'if', 'up to'",
    "[Ii]t is no(?! (longer|more|less|good))": "'it is not a ...'",
    "(no|none) other than|nothing else than": "'only'",
    "and so for": "'the same holds for'",
    r"go(es)? on (?!the|a|to)\w+ing": "'keeps ...ing', 'continues'",
    "in one go": "'at once'",
    "(is|are|was|were) told": "'receives', 'reports'",
    "needs? no word": "'needs no communication'",
    "leads? (nowhere|with the)": "'has a leading axis of ...'",
    "(is|are) (then )?meant(?! (to|for|as)\\b)": "'refers to', or say what it is",
    "stands? (alone|there|for itself)": "'is', 'comes'",
    "one of those": "the noun",
    "teach(es)? nothing": "'is masked out of the loss'",
    "what (a|an|the) [a-z]+ (shows|says|sees|holds)": "the noun: 'the observation', 'the spec'",
    "that which": "the noun",
    "tried (with|here)": "'tested with'",
    "at its place": "'in its place'",
    "gives? back": "'returns'",
}
PATTERNS = {
    re.compile(rf"(?<![\w'-])(?:{phrase})(?![\w-])".replace(" ", r"\s+")): instead
    for phrase, instead in PHRASES.items()
}
CODE = re.compile(r"^```.*?^```|``?[^`]+``?|\]\([^)]*\)|https?://\S+", re.DOTALL | re.MULTILINE)


def texts_of(path):
    """Yields each text of a file after its first line: page, notebook, or docstrings of the public names."""
    if path.suffix == ".md":
        yield 1, path.read_text()
        return
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text())["cells"]
        yield 1, "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) or not ast.get_docstring(node):
            continue
        if not getattr(node, "name", path.stem.replace("__init__", "")).startswith("_"):
            yield node.body[0].lineno, node.body[0].value.value


def phrases_of(path):
    """The phrases of a file outside code: each with its line, and what to write instead."""
    found = []
    for first, text in texts_of(path):
        text = CODE.sub(lambda code: "`" + "\n" * code[0].count("\n"), text)
        for pattern, instead in PATTERNS.items():
            for match in pattern.finditer(text):
                line, phrase = first + text.count("\n", 0, match.start()), " ".join(match[0].split())
                found.append(f"{path.relative_to(ROOT)}:{line}: '{phrase}': write {instead}")
    return found


def test_pages_are_written_in_plain_words():
    folders = "*.md", "docs/**/*.md", "benchmarks/*.md", "tests/*.md", "notebooks/*.ipynb"
    pages = [page for folder in folders for page in ROOT.glob(folder)]
    assert [line for page in sorted(pages) if page.parent.name != "evidence" for line in phrases_of(page)] == []


def test_docstrings_are_written_in_plain_words():
    assert [line for path in sorted(ROOT.glob("jaxenv/**/*.py")) for line in phrases_of(path)] == []


def test_a_phrase_is_found_across_lines_but_not_in_code(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("# Page\n\n```\ndrawn anew\n```\n\n`anew`, JAX's own, its own,\nthe size and those\n  of keys")
    module.write_text('def f():\n    """It is\n    none."""\n\n\ndef _f():\n    """Anew."""\n')
    assert [found.split(": write")[0] for path in (page, module) for found in phrases_of(path)] == [
        "page.md:8: 'those of'",
        "module.py:2: 'is none'",
    ]
