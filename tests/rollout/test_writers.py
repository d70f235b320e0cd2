"""Writers: aligned lines, files that are continued, and curves."""

import csv
import io
import struct
import sys
import types

import jax
import numpy as np
import pytest

from jaxenv.rollout import CSV, Count, Table, TensorBoard, WandB

FIRST = {"episodes": 12, "return_mean": 21.523456, "length_mean": None}
SECOND = {"episodes": 1234567, "return_mean": -0.000123456, "length_mean": 3.0}


def read(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


# --- the table -------------------------------------------------------------------------------------------------------


def test_a_table_is_aligned_and_has_one_header():
    file = io.StringIO()
    with Table(None, file) as table:
        table(1000, FIRST)
        table(2_000_000, SECOND)
    lines = file.getvalue().splitlines()
    assert lines[0].split() == ["step", "episodes", "return_mean", "length_mean"]
    assert lines[1].split() == ["1,000", "12", "21.523", "-"]
    assert lines[2].split() == ["2,000,000", "1,234,567", "-0.00012346", "3"]
    ends = [[i for i, c in enumerate(line) if line[i + 1 : i + 2] in ("", " ") and c != " "] for line in lines]
    assert ends[0] == ends[1] == ends[2]


def test_a_table_shows_the_given_columns_in_their_order():
    file = io.StringIO()
    table = Table(["return_mean", "episodes"], file)
    table(1, {**FIRST, "return_mean": np.array([1.0, np.nan], np.float32)})
    header, line = file.getvalue().splitlines()
    assert header.split() == ["step", "return_mean.0", "return_mean.1", "episodes"]
    assert line.split() == ["1", "1", "-", "12"]
    with pytest.raises(ValueError, match="Table: no metric 'return_mean'"):
        table(2, {"episodes": 3})


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_an_existing_csv_file_is_continued_under_its_header(tmp_path):
    path = tmp_path / "a.csv"
    with CSV(path) as writer:
        writer(10, FIRST)
        writer(20, SECOND)
    with CSV(path) as writer:
        writer(30, dict(reversed(FIRST.items())))
    header, *lines = read(path)
    assert header == ["step", "episodes", "return_mean", "length_mean"]
    assert lines == [
        ["10", "12", "21.523456", ""],
        ["20", "1234567", "-0.000123456", "3.0"],
        ["30", "12", "21.523456", ""],
    ]


@pytest.mark.parametrize("left", ["step,epis", "step,episodes,return_mean,length_mean\r\n5,1,2.0,3.0\r\n10,1"])
def test_an_unfinished_line_of_a_killed_run_is_removed(tmp_path, left):
    path = tmp_path / "a.csv"
    path.write_bytes(left.encode())
    with CSV(path) as writer:
        writer(10, FIRST)
    assert read(path)[0] == ["step", "episodes", "return_mean", "length_mean"]
    assert read(path)[1:-1] == ([["5", "1", "2.0", "3.0"]] if "5,1" in left else [])
    assert read(path)[-1] == ["10", "12", "21.523456", ""]


@pytest.mark.parametrize("left", ["my precious notes", "x,y\n1,2\n3,4", "length_mean,return_mean,episodes,step"])
def test_a_file_with_other_content_is_left_untouched(tmp_path, left):
    path = tmp_path / "a.csv"
    path.write_text(left)
    with pytest.raises(ValueError, match=r"CSV: .*a\.csv"), CSV(path) as writer:
        writer(10, FIRST)
    assert path.read_text() == left


def test_a_csv_file_has_one_writer_until_it_is_closed(tmp_path):
    with CSV(tmp_path / "a.csv") as first:
        first(1, {"loss": 0.5})
        with pytest.raises(ValueError, match=r"^CSV: .*a\.csv is in use"):
            CSV(tmp_path / "a.csv")(1, {"loss": 7.0})
        first(2, {"loss": 0.25})
    with CSV(tmp_path / "a.csv") as second:
        second(3, {"loss": 0.125})
    assert (tmp_path / "a.csv").read_text().split() == ["step,loss", "1,0.5", "2,0.25", "3,0.125"]


def test_a_metric_named_step_is_refused(tmp_path):
    with pytest.raises(ValueError, match="CSV: no metric may be named 'step'"):
        CSV(tmp_path / "a.csv")(10, {"step": 1})


def test_every_line_is_flushed(tmp_path):
    writer = CSV(tmp_path / "a.csv")
    writer(10, FIRST)
    assert len(read(tmp_path / "a.csv")) == 2
    writer.close()


@pytest.mark.parametrize("reopened", [False, True])
def test_other_columns_are_refused_and_nothing_is_written(tmp_path, reopened):
    path = tmp_path / "a.csv"
    writer = CSV(path)
    writer(10, FIRST)
    if reopened:
        writer.close()
        writer = CSV(path)
    changed = {**FIRST, "cost": 1.0}
    del changed["episodes"]
    with pytest.raises(ValueError, match=r"CSV: the columns of .*a.csv .* new: \['cost'\], missing: \['episodes'\]"):
        writer(20, changed)
    writer.close()
    assert len(read(path)) == 2


def test_a_csv_file_in_a_missing_folder_is_refused_before_a_run(tmp_path):
    with pytest.raises(ValueError, match=r"^CSV: path .*absent'$"):
        CSV(tmp_path / "absent" / "a.csv")


# --- TensorBoard -----------------------------------------------------------------------------------------------------


def points(folder):
    """The points in the event files of a folder, in the order of the files, as TensorBoard reads them."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = []
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event, content = event_pb2.Event.FromString(content[12 : 12 + length]), content[16 + length :]
            found += [(value.tag, round(value.simple_value, 4), event.step) for value in event.summary.value]
    return found


def test_tensorboard_has_a_point_for_every_value_on_disk_when_a_call_returns(tmp_path):
    pytest.importorskip("tensorboardX")
    with TensorBoard(tmp_path / "new") as writer:
        writer(10, {**FIRST, "cost": [1.0, 2.0]})
        assert points(tmp_path / "new") == [
            ("episodes", 12, 10),
            ("return_mean", 21.5235, 10),
            ("cost.0", 1, 10),
            ("cost.1", 2, 10),
        ]
        many = {f"seed{number}": float(number) for number in range(40)}
        writer(20, many)
        assert points(tmp_path / "new")[4:] == [(name, value, 20) for name, value in many.items()]


def test_writers_of_one_second_have_files_of_their_own(tmp_path):
    pytest.importorskip("tensorboardX")
    for step in range(3):
        with TensorBoard(tmp_path) as writer:
            writer(step, {"x": 0.5})
    assert sorted(points(tmp_path)) == [("x", 0.5, 0), ("x", 0.5, 1), ("x", 0.5, 2)]


def test_a_resumed_tensorboard_adds_only_points_that_the_folder_lacks(tmp_path):
    pytest.importorskip("tensorboardX")
    with TensorBoard(tmp_path, against=["calls"]) as writer:
        writer(10, {"x": 1.0, "y y": 2.0})
        writer(20, {"x": 3.0})
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])  # killed while it wrote x_vs_calls of the second call
    with TensorBoard(tmp_path, resume=True) as writer:
        writer(10, {"x": 1.0, "y y": 2.0, "z": 7.0})
        writer(20, {"x": 3.0, "y y": 4.0})
    file.unlink()
    assert points(tmp_path) == [("z", 7, 10), ("y_y", 4, 20)]
    with TensorBoard(tmp_path) as writer:  # another run in the same folder
        writer(10, {"z": 8.0})
    assert sorted(points(tmp_path)) == [("y_y", 4, 20), ("z", 7, 10), ("z", 8, 10)]


def test_tensorboard_draws_metrics_over_the_sums_of_other_counts(tmp_path):
    pytest.importorskip("tensorboardX")
    with TensorBoard(tmp_path, against=["episodes", "calls"]) as writer:
        writer(10, {"episodes": 12, "return_mean": 1.5})
        writer(30, {"episodes": 5, "return_mean": 2.5})
    assert points(tmp_path) == [
        ("episodes", 12, 10),
        ("episodes_vs_calls", 12, 1),
        ("return_mean", 1.5, 10),
        ("return_mean_vs_episodes", 1.5, 12),
        ("return_mean_vs_calls", 1.5, 1),
        ("episodes", 5, 30),
        ("episodes_vs_calls", 5, 2),
        ("return_mean", 2.5, 30),
        ("return_mean_vs_episodes", 2.5, 17),
        ("return_mean_vs_calls", 2.5, 2),
    ]


@pytest.mark.parametrize(("name", "value"), [("return_mean", 21.523456), ("laps", None)])
def test_tensorboard_refuses_to_draw_over_what_is_not_a_count(tmp_path, name, value):
    pytest.importorskip("tensorboardX")
    with (
        TensorBoard(tmp_path, against=[name]) as writer,
        pytest.raises(ValueError, match=rf"TensorBoard: against .*{value}"),
    ):
        writer(10, FIRST)
    with pytest.raises(ValueError, match=r"TensorBoard: against .*got 'episodes'"):
        TensorBoard(tmp_path, against="episodes")


def test_without_tensorboardx_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r'pip install ".*\[tensorboard\]"'):
        TensorBoard(tmp_path)


# --- Weights & Biases ------------------------------------------------------------------------------------------------


def test_wandb_logs_the_metrics_that_have_a_value_and_finishes_its_run(monkeypatch):
    calls = []

    class Run:
        def log(self, metrics, step):
            calls.append((step, metrics))

        def finish(self):
            calls.append("finished")

    def init(**options):
        calls.append(options)
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    with WandB("project", name="run") as writer:
        writer(1000, {"episodes": 12, "return_mean": None, "reward": [1.0, 2.0]})
    logged = (1000, {"episodes": 12, "reward.0": 1.0, "reward.1": 2.0})
    assert calls == [{"project": "project", "name": "run"}, logged, "finished"]


def test_wandb_without_its_library_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="WandB needs wandb"):
        WandB("project")


def test_a_step_may_be_an_exact_count_or_an_array(tmp_path, capsys):
    path = tmp_path / "metrics.csv"
    with CSV(path) as csv:
        for step in (Count.from_array(np.uint32(3)), jax.numpy.int32(4), 5):
            csv(step, {"a": 1.0})
    assert path.read_text().splitlines() == ["step,a", "3,1.0", "4,1.0", "5,1.0"]
    Table(["a"])(Count.from_array(np.uint32(3000)), {"a": 1.0})
    assert capsys.readouterr().out.splitlines()[1].split() == ["3,000", "1"]
