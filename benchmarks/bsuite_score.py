"""Scores of logs by bsuite's own summary functions, the tables, and the radar. Needs the package ``bsuite``."""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks import tables
from jaxenv.suites import bsuite as suite

TAGS = sorted({tag for experiment in suite.EXPERIMENTS.values() for tag in experiment.tags})


def scores(folder: pathlib.Path, experiments: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Scores each experiment from 0 to 1 and reports whether all episodes were played.

    Args:
        folder: the logs of one agent.
        experiments: those to score; all of their settings must have been logged.
    """
    with _bsuite() as (csv_load, analysis):
        logs = csv_load.load_bsuite(str(folder))[0]
        table = analysis.bsuite_score(logs[logs.bsuite_env.isin(experiments)])
    lines = zip(table.bsuite_env, table.score, table.finished, strict=True)
    return {name: {"score": round(float(score), 4), "finished": bool(finished)} for name, score, finished in lines}


def by_tag(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Returns the mean score per tag, NaN for a tag without experiments, from the rows of one agent."""
    import pandas

    with _bsuite() as (_, analysis):
        table = pandas.DataFrame({"score": [r["score"] for r in rows], "tags": [str(r["tags"]) for r in rows]})
        found = analysis.ave_score_by_tag(table, [])
    return dict(zip(found.tag, map(float, found.score), strict=True))


@contextlib.contextmanager
def _bsuite() -> Iterator[tuple[Any, Any]]:
    """Yields bsuite's loader and summary, which are written for pandas 1 and need ``Series.append``."""
    import matplotlib
    import pandas

    with matplotlib.rc_context():  # bsuite sets its own style
        from bsuite.experiments import summary_analysis
        from bsuite.logging import csv_load

    missing = not hasattr(pandas.Series, "append")
    if missing:
        pandas.Series.append = lambda self, other: pandas.concat([self, other])
    try:
        yield csv_load, summary_analysis
    finally:
        if missing:
            del pandas.Series.append


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the scores of all agents as Markdown tables, by experiment and by tag."""
    agents = _agents(rows)
    scores = [
        [f"`{name}`", ", ".join(experiment.tags), *(_score(rows, agent, name) for agent in agents)]
        for name, experiment in suite.EXPERIMENTS.items()
    ]
    means = {agent: by_tag([row for row in rows if row["agent"] == agent]) for agent in agents}
    tags = [
        [tag, _coverage(rows, tag), *(f"{x[tag]:.2f}" if x[tag] >= 0 else "-" for x in means.values())] for tag in TAGS
    ]
    scored = [line for line in scores if set(line[2:]) != {"-"}]
    experiments = tables.markdown(["experiment", "tags", *agents], scored)
    return "\n".join([*experiments, "", *tables.markdown(["tag", "experiments", *agents], tags)])


def draw(rows: Sequence[dict[str, Any]], path: pathlib.Path) -> None:
    """Draws bsuite's radar: one axis per tag for its mean score, at least 0.05 as in bsuite.

    bsuite's own drawing fails with pandas 2 and later.
    """
    import matplotlib.pyplot as plt

    angles = np.linspace(0, 2 * np.pi, len(TAGS), endpoint=False)
    with plt.style.context("default"):
        figure, axis = plt.subplots(figsize=(5, 5), subplot_kw={"projection": "polar"})
        for number, agent in enumerate(_agents(rows)):
            means = by_tag([row for row in rows if row["agent"] == agent])
            values = np.maximum(np.nan_to_num([means[tag] for tag in TAGS]), 0.05)
            closed = np.append(angles, angles[0]), np.append(values, values[0])
            axis.plot(*closed, color=f"C{number}", linewidth=2.5, label=agent)
            axis.fill(*closed, color=f"C{number}", alpha=0.2)
        axis.set_xticks(angles, [_spoke(rows, tag) for tag in TAGS], fontsize=11)
        for label, angle in zip(axis.get_xticklabels(), angles, strict=True):
            label.set_horizontalalignment(
                "center" if abs(np.cos(angle)) < 0.3 else "left" if np.cos(angle) > 0 else "right"
            )
        axis.tick_params(axis="x", pad=9)
        axis.set_yticks([0.25, 0.5, 0.75, 1], [".25", ".5", ".75", "1"], fontsize=9, color="0.4")
        axis.set_ylim(0, 1)
        axis.grid(linestyle=":", color="0.6")
        axis.legend(loc="lower left", bbox_to_anchor=(-0.3, -0.12), frameon=False)
        figure.savefig(path, dpi=110, bbox_inches="tight")
        plt.close(figure)


def _agents(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["agent"] for row in rows))


def _score(rows: Sequence[dict[str, Any]], agent: str, name: str) -> str:
    """Formats a cell of the table; a run that was cut short has a mark."""
    for row in rows:
        if (row["agent"], row["experiment"]) == (agent, name):
            return f"{row['score']:.2f}" + ("" if row["finished"] else " (unfinished)")
    return "-"


def _coverage(rows: Sequence[dict[str, Any]], tag: str) -> str:
    """Formats how many experiments of a tag every agent has, out of how many."""
    names = {name for name, experiment in suite.EXPERIMENTS.items() if tag in experiment.tags}
    counts = {sum(row["experiment"] in names and row["agent"] == agent for row in rows) for agent in _agents(rows)}
    return f"{' to '.join(str(count) for count in sorted({min(counts), max(counts)}))} of {len(names)}"


def _spoke(rows: Sequence[dict[str, Any]], tag: str) -> str:
    """Formats the label of an axis, with the number of its experiments where some are missing."""
    coverage, title = _coverage(rows, tag), tag.replace("_", " ")
    first, _, last = coverage.rpartition(" of ")
    return title if first == last else f"{title}\n({coverage})"
