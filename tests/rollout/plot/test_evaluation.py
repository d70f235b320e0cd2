"""Plots of evaluations: what the histograms show, and what is refused."""

import jax
import numpy as np
import pytest

from jaxenv import plot
from jaxenv.rollout import Evaluation
from tests.packages import lazy

figures = lazy("matplotlib.figure")


def evaluation():
    returns = np.array([1, 2, 2, 3, 50, 7], np.float32)
    flags = (np.array(mask, bool) for mask in ([1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1]))
    return Evaluation(returns, returns.astype(np.int32), *flags)


def test_an_evaluation_makes_histograms_of_its_finished_episodes():
    figure = plot.evaluation(evaluation())
    assert [axis.get_title() for axis in figure.axes] == ["returns", "lengths"]
    returns, lengths = figure.axes
    labels = [text.get_text() for text in returns.get_legend().get_texts()]
    assert labels == ["2 terminated", "2 truncated", "mean 2"]
    assert sum(patch.get_height() for patch in returns.patches) == 4
    edges = {round(patch.get_x(), 3) for patch in lengths.patches}
    assert edges == {0.5, 1.5, 2.5}


def test_a_kind_of_end_without_episodes_is_left_out():
    ended = evaluation()
    (returns, _) = plot.evaluation(Evaluation(*(x[:2] for x in vars(ended).values()))).axes
    assert [text.get_text() for text in returns.get_legend().get_texts()] == ["2 terminated", "mean 1.5"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2], r"evaluation .*got list"),
        ({"return_mean": 1.0}, r"got dict: jaxenv\.rollout\.Table prints metrics"),
        (jax.tree.map(lambda x: np.zeros_like(x), evaluation()), r"must hold a.* 6"),
        (jax.tree.map(lambda x: np.stack([x, x]), evaluation()), r"must be \[N\], got shape \(2, 6\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given, message):
    with pytest.raises(ValueError, match=f"plot.evaluation: .*{message}"):
        plot.evaluation(given)


def test_a_traced_evaluation_is_refused():
    with pytest.raises(ValueError, match="plot outside of jit"):
        jax.eval_shape(plot.evaluation, evaluation())


def test_a_title_is_shown_on_axes_of_the_user_too():
    figure = figures.Figure()
    axes = figure.subplots(1, 2)
    plot.evaluation(evaluation(), title="mine", axis=axes)
    assert figure.get_suptitle() == "mine"


def test_metrics_names_its_successors():
    with pytest.raises(AttributeError, match=r"plot\.evaluation.*Table"):
        plot.metrics
