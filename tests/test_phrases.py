"""Turns of phrase that pages and public docstrings avoid, each with a replacement."""

import ast
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
# Files that still have some. Only remove names: a new page or docstring has none.
NOT_YET = {
    "jaxenv/_util/xla.py",
    "jaxenv/canvas/_films.py",
    "jaxenv/core/_actions.py",
    "jaxenv/core/_checks.py",
    "jaxenv/core/_describe.py",
    "jaxenv/core/_sum.py",
    "jaxenv/core/bases/batch_wrapper.py",
    "jaxenv/core/elements.py",
    "jaxenv/core/entries.py",
    "jaxenv/core/environment.py",
    "jaxenv/core/facts.py",
    "jaxenv/core/lanes.py",
    "jaxenv/core/levels.py",
    "jaxenv/core/starts.py",
    "jaxenv/core/wrapper.py",
    "jaxenv/data/checkpointer.py",
    "jaxenv/data/level_buffer.py",
    "jaxenv/data/level_scores.py",
    "jaxenv/data/replay/replay_state.py",
    "jaxenv/data/rows.py",
    "jaxenv/data/transformers/transformer.py",
    "jaxenv/envs/board/game_2048.py",
    "jaxenv/envs/board/go.py",
    "jaxenv/envs/board/othello.py",
    "jaxenv/envs/box2d/car_racing.py",
    "jaxenv/envs/coin_game.py",
    "jaxenv/envs/grid/amaze.py",
    "jaxenv/envs/grid/amaze_editor.py",
    "jaxenv/envs/grid/dynamic_obstacles.py",
    "jaxenv/envs/grid/foraging.py",
    "jaxenv/envs/grid/overcooked.py",
    "jaxenv/envs/grid/room_grid.py",
    "jaxenv/envs/physics2d/_broad.py",
    "jaxenv/envs/physics2d/_scene.py",
    "jaxenv/interop/_agents.py",
    "jaxenv/interop/_lanes.py",
    "jaxenv/interop/brax.py",
    "jaxenv/interop/jaxmarl.py",
    "jaxenv/interop/mctx.py",
    "jaxenv/interop/pettingzoo.py",
    "jaxenv/interop/stable_baselines3.py",
    "jaxenv/interop/stoa.py",
    "jaxenv/random.py",
    "jaxenv/rollout/_evaluate.py",
    "jaxenv/rollout/_frames.py",
    "jaxenv/rollout/_policy.py",
    "jaxenv/rollout/_record.py",
    "jaxenv/rollout/chunked_rollout.py",
    "jaxenv/rollout/metrics/_sums.py",
    "jaxenv/rollout/play/__init__.py",
    "jaxenv/rollout/plot/_style.py",
    "jaxenv/suites/_host_stack.py",
    "jaxenv/suites/_pettingzoo_lanes.py",
    "jaxenv/suites/_single.py",
    "jaxenv/suites/jaxmarl.py",
    "jaxenv/suites/jumanji.py",
    "jaxenv/suites/pettingzoo.py",
    "jaxenv/testing/_checked.py",
    "jaxenv/testing/_source.py",
    "jaxenv/training/_run_films.py",
    "jaxenv/training/baselines.py",
    "jaxenv/training/config.py",
    "jaxenv/training/evaluation.py",
    "jaxenv/training/networks.py",
    "jaxenv/training/paired.py",
    "jaxenv/training/self_play.py",
    "jaxenv/training/trained.py",
    "jaxenv/training/ued.py",
    "jaxenv/wrappers/agents/agents_as_lanes.py",
    "jaxenv/wrappers/agents/opponent.py",
    "jaxenv/wrappers/episode/level_replay.py",
    "jaxenv/wrappers/observation/normalize_observation.py",
    "jaxenv/wrappers/recording/record_video.py",
    "jaxenv/wrappers/reward/reward_from_info.py",
    "jaxenv/wrappers/stack/_make.py",
}
PATTERNS = {
    re.compile(rf"(?<![\w'-])(?:{phrase})(?![\w-])".replace(" ", r"\s+")): instead
    for phrase, instead in PHRASES.items()
}
CODE = re.compile(r"^```.*?^```|``?[^`]+``?|\]\([^)]*\)|https?://\S+", re.DOTALL | re.MULTILINE)


def texts_of(path):
    """Yields each text of a file after its first line: the page, or the docstrings of the public names."""
    if path.suffix == ".md":
        yield 1, path.read_text()
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


FILES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("jaxenv/**/*.py")]
NAMES = {str(path.relative_to(ROOT)): path for path in sorted(FILES) if "evidence" not in path.parts}


def test_pages_and_docstrings_are_written_in_plain_words():
    assert [line for name in NAMES.keys() - NOT_YET for line in phrases_of(NAMES[name])] == []


def test_the_files_that_are_not_clean_yet_are_not_clean_yet():
    clean = {name for name in NOT_YET if name not in NAMES or not phrases_of(NAMES[name])}
    assert clean == set(), "remove them from NOT_YET"


def test_a_phrase_is_found_across_lines_but_not_in_code(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("# Page\n\n```\ndrawn anew\n```\n\n`anew`, JAX's own, its own,\nthe size and those\n  of keys")
    module.write_text('def f():\n    """It is\n    none."""\n\n\ndef _f():\n    """Anew."""\n')
    assert [found.split(": write")[0] for path in (page, module) for found in phrases_of(path)] == [
        "page.md:8: 'those of'",
        "module.py:2: 'is none'",
    ]
