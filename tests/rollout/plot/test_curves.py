"""Learning curves: what is read, the interval over seeds, and what is refused."""

import csv
import io
import sys

import numpy as np
import pytest

from jaxenv import plot
from jaxenv.rollout.plot._curves import interval
from tests.packages import lazy

figures = lazy("matplotlib.figure")

STEPS = np.array([100, 200, 300])
RETURNS = np.array([[1.0, 3.0], [2.0, 6.0], [5.0, 7.0]])


def lines(figure):
    return {line.get_label(): line.get_xydata() for line in figure.axes[0].lines}


def write(path, returns=RETURNS, column="eval_return", seed=True):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["steps", "seed", column] if seed else ["steps", column])
        for steps, values in zip(STEPS, returns, strict=True):
            for number, value in enumerate(values):
                entry = "" if np.isnan(value) else value
                writer.writerow([steps, number, entry] if seed else [steps, entry])
    return path


def test_the_mean_of_the_seeds_and_every_seed_are_drawn():
    figure = plot.curves((STEPS, RETURNS))
    np.testing.assert_array_equal(lines(figure)["mean of 2 seeds, 95% interval"], np.stack([STEPS, [2, 4, 6]], axis=-1))
    assert len(figure.axes[0].lines) == 3
    assert len(figure.axes[0].collections) == 1


def test_several_curves_share_a_legend_and_a_threshold():
    figure = plot.curves({"one": (STEPS, RETURNS), "two": (STEPS, RETURNS[:, 0])}, threshold=4, title="both")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["one, 2 seeds", "two, 1 seed", "solved at 4"]
    assert len(figure.axes[0].collections) == 1  # one seed has no interval
    colours = {line.get_color() for line in figure.axes[0].lines}
    assert len(colours) == 3
    assert figure.axes[0].get_title() == "both"


def test_files_and_folders_are_read_like_arrays(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    write(folder / "curve.csv")
    write(tmp_path / "single.csv", RETURNS[:, :1], "return_mean", seed=False)
    expected = plot.curves((STEPS, RETURNS)).axes[0].lines[-1].get_xydata()
    for path in (folder, str(folder), folder / "curve.csv"):
        np.testing.assert_array_equal(plot.curves(path).axes[0].lines[-1].get_xydata(), expected)
    single = plot.curves(tmp_path / "single.csv", column="return_mean").axes[0]
    np.testing.assert_array_equal(single.lines[-1].get_ydata(), RETURNS[:, 0])
    assert single.get_ylabel() == "return mean"


def test_a_seed_without_a_value_makes_a_gap(tmp_path):
    holed = RETURNS.copy()
    holed[1, 0] = np.nan
    curve = plot.curves(write(tmp_path / "curve.csv", holed)).axes[0].lines[-1].get_ydata()
    np.testing.assert_array_equal(curve, [2, np.nan, 6])


def test_the_interval_contains_the_average_and_covers_at_its_level():
    noise = np.random.default_rng(1).normal(size=(400, 12))
    centre, low, high = interval(noise, "mean", 0.8, 500)
    np.testing.assert_allclose(centre, noise.mean(axis=1))
    assert ((low < centre) & (centre < high)).all()
    assert 0.65 < ((low < 0) & (high > 0)).mean() < 0.9
    wide = interval(noise, "mean", 0.99, 500)
    assert (wide[1] < low).all()
    # Of two numbers a resampled mean is the smaller in a quarter of the cases, and the larger in another.
    assert [x.item() for x in interval(np.array([[0.0, 1.0]]), "mean", 0.6, 500)] == [0.5, 0, 1]
    np.testing.assert_array_equal(wide[1], interval(noise, "mean", 0.99, 500)[1])  # the same in every call


def test_the_interquartile_mean_ignores_outliers():
    returns = np.array([[1.0, 2, 3, 4, 5, 6, 7, 1000]])
    assert interval(returns, "iqm", 0.9, 10)[0] == 4.5
    holed = np.array([[1.0, 2, 3, np.nan]])
    assert np.isnan(interval(holed, "iqm", 0.9, 10)[0])


def test_plots_leave_pyplot_alone_and_notebooks_show_them():
    import matplotlib.pyplot as plt

    figure = plot.curves((STEPS, RETURNS))
    assert plt.get_fignums() == []
    assert figure._repr_png_()[:4] == b"\x89PNG"


def test_axes_and_figures_of_the_user_are_drawn_on():
    mine = figures.Figure(facecolor="black")
    axis, other = mine.subplots(1, 2)
    assert plot.curves((STEPS, RETURNS), axis=axis) is mine
    assert axis.lines
    assert not other.lines
    assert mine.get_facecolor() == (0, 0, 0, 1)
    empty = figures.Figure()
    assert plot.curves((STEPS, RETURNS), figure=empty) is empty
    assert len(empty.axes) == 1


def test_names_are_shown_as_they_are_written():
    named = {"_ours": (STEPS, RETURNS), r"cost $5 \x $6": (STEPS, RETURNS)}
    figure = plot.curves(named)
    figure.savefig(io.BytesIO())
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert [label.replace("\u200b", "").replace(r"\$", "$") for label in labels] == [f"{n}, 2 seeds" for n in named]


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ({}, {}, r"runs .*got none"),
        ((STEPS, RETURNS.T), {}, r"returns \[N, num_seeds\], got shapes \(3,\) and \(2, 3\)"),
        (3, {}, r"a run .*got int"),
        (["a.csv", "b.csv"], {}, "pass several paths"),
        ((STEPS, RETURNS), {"threshold": "high"}, r"threshold .*got 'high'"),
        ((STEPS, RETURNS), {"average": "median"}, r"average .*got 'median'"),
        ((STEPS, RETURNS), {"average": "iqm"}, r"average 'iqm' .*got 2"),
        ((STEPS, RETURNS), {"level": 95}, r"level .*got 95"),
        ((STEPS, RETURNS), {"num_resamples": 0}, r"num_resamples .*got 0"),
        ((STEPS, RETURNS), {"axis": "left"}, r"axis .*got str"),
        ((STEPS, RETURNS), {"figure": 3}, r"figure .*got int"),
    ],
)
def test_what_cannot_be_drawn_is_refused(runs, options, message):
    with pytest.raises(ValueError, match=f"plot.curves: .*{message}"):
        plot.curves(runs, **options)


def test_axes_that_do_not_fit_the_panels_or_the_figure_are_refused():
    figure = figures.Figure()
    with pytest.raises(ValueError, match=r"^plot\.curves: axis .*got 2"):
        plot.curves((STEPS, RETURNS), axis=figure.subplots(1, 2))
    with pytest.raises(ValueError, match=r"^plot\.curves: give axis or figure"):
        plot.curves((STEPS, RETURNS), figure=figure, axis=figure.subplots())


def test_a_file_without_the_column_is_refused(tmp_path):
    path = write(tmp_path / "curve.csv")
    with pytest.raises(ValueError, match=r"no column 'eval_retrun'.*'eval_return'"):
        plot.curves(path, column="eval_retrun")
    with pytest.raises(FileNotFoundError):
        plot.curves(tmp_path / "none")
    path.write_text("steps,seed,eval_return\n")
    with pytest.raises(ValueError, match=r"curve\.csv has no rows"):
        plot.curves(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("10,0,oops", r"curve\.csv, line 3: eval_return .*got 'oops'"),
        ("ten,0,1", r"curve\.csv, line 3: steps .*got 'ten'"),
        (",0,1", r"curve\.csv, line 3: steps .*got none"),
    ],
)
def test_a_cell_without_a_number_is_named(tmp_path, row, message):
    path = tmp_path / "curve.csv"
    path.write_text(f"steps,seed,eval_return\n0,0,1\n{row}\n")
    with pytest.raises(ValueError, match=message):
        plot.curves(path)


def test_a_missing_matplotlib_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(ImportError, match="matplotlib is not installed"):
        plot.curves((STEPS, RETURNS))
