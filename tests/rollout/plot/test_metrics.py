"""Plots of metrics: which panels there are, what they show, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from jaxenv import plot
from jaxenv.rollout import Count, Evaluation, Statistic


def evaluation():
    returns = np.array([1, 2, 2, 3, 50, 7], np.float32)
    flags = (np.array(mask, bool) for mask in ([1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1]))
    return Evaluation(returns, returns.astype(np.int32), *flags)


def titles(figure):
    return [axis.get_title() for axis in figure.axes]


def bars(axis):
    names = [label.get_text() for label in axis.get_yticklabels()]
    return dict(zip(names, (patch.get_width() for patch in axis.patches), strict=True))


def test_metrics_have_a_panel_for_ends_returns_lengths_and_entries():
    counts = {name: Count.from_array(jnp.array(n)) for name, n in (("steps", 9), ("terminated", 1), ("truncated", 2))}
    names = ("return_mean", "return_mean_terminated", "return_mean_truncated", "length_mean", "reward_per_step")
    means = {name: Statistic.where(jnp.array(True), jnp.array(1.25)) for name in (*names, "energy")}
    figure = plot.metrics({**counts, **means})
    assert titles(figure) == ["3 episodes", "return", "length", "mean of episodes"]
    assert bars(figure.axes[0]) == {"truncated": 2, "terminated": 1}
    assert bars(figure.axes[3]) == {"energy": 1.25}
    rows_of_return = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert rows_of_return == ["all", "terminated", "truncated"]


def test_the_spread_of_returns_is_drawn_at_its_place():
    figure = plot.metrics({"return_mean": 5.0, "return_std": 2.0, "return_min": 1.0, "return_max": 8.0})
    extremes, deviation, mean = (line.get_xdata().tolist() for line in figure.axes[0].lines)
    assert (extremes, deviation, mean) == ([1, 8], [3, 7], [5])


def test_metrics_without_data_are_left_out():
    missing = Statistic.where(jnp.array(False), jnp.zeros(()))
    figure = plot.metrics({"terminated": 3, "truncated": 0, "abnormal": 0, "return_mean": missing})
    assert titles(figure) == ["3 episodes"]
    assert bars(figure.axes[0]) == {"truncated": 0, "terminated": 3}


def test_an_evaluation_makes_histograms_of_its_finished_episodes():
    returns, lengths = plot.metrics(evaluation()).axes
    labels = [text.get_text() for text in returns.get_legend().get_texts()]
    assert labels == ["2 terminated", "2 truncated", "mean 2"]
    assert sum(patch.get_height() for patch in returns.patches) == 4
    edges = {round(patch.get_x(), 3) for patch in lengths.patches}
    assert edges == {0.5, 1.5, 2.5}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([1, 2], "metrics must be a dict or an Evaluation, got list"),
        ({"fps": 3.0}, r"must hold some of episodes, such as return_mean, got \['fps'\]"),
        ({"return_mean": np.ones(2)}, "must be of scalar rewards"),
        (jax.tree.map(lambda x: np.zeros_like(x), evaluation()), "must hold a finished episode, got none of 6"),
        (jax.tree.map(lambda x: np.stack([x, x]), evaluation()), r"must be \[N\], got shape \(2, 6\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused(metrics, message):
    with pytest.raises(ValueError, match=f"plot.metrics: .*{message}"):
        plot.metrics(metrics)


def test_traced_metrics_are_refused():
    for traced in ({"return_mean": jnp.zeros(())}, evaluation()):
        with pytest.raises(ValueError, match="plot outside of jit"):
            jax.eval_shape(plot.metrics, traced)


def test_a_title_is_shown_on_axes_of_the_user_too():
    figure = Figure()
    axes = figure.subplots(1, 2)
    plot.metrics({"terminated": 1, "return_mean": 2.0}, title="mine", axis=axes)
    assert figure.get_suptitle() == "mine"
