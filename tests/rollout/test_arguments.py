"""Arguments of rollouts, metrics and writers are refused by name before they are used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import rollout
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset
from tests.errors import like

env = AutoReset(Counting([4, 7], num_envs=2))
policy = rollout.random_policy(env)
metrics = rollout.Metrics()


@jax.jit  # one program
def _made():
    state, timestep = env.reset(jax.random.key(0))
    rows = jaxenv.unroll(env, policy, state, timestep, 3)[1]
    measured = metrics.update_rows(metrics.init(timestep), rows.timestep)
    return state, timestep, rows, measured, metrics.totals(measured)


state, timestep, rows, measured, totals = _made()


def count(value, step, next_timestep):
    return value + 1


def fold(fn=count, value=0, **options):
    return rollout.fold(env, policy, fn, value, state, timestep, 2, **options)


def unroll(**options):
    return jaxenv.unroll(env, policy, state, timestep, 2, **options)


CALLS = {
    "id for a stack": (
        lambda: rollout.policy_stream("CartPole-v1", state),
        "policy_stream: env ...got 'CartPole-v1'",
    ),
    "numbers for totals": (lambda: rollout.merge_totals(1, 2), "merge_totals: a ...got 1"),
    "state for totals": (
        lambda: rollout.merge_totals(totals, measured),
        "merge_totals: b ...got MetricsState",
    ),
    "totals of other metrics": (
        lambda: rollout.merge_totals(totals, _totals_with_gamma()),
        "merge_totals: b.discounted_starts ...got a Moments",
    ),
    "totals to compute": (lambda: metrics.compute(measured), "Metrics: totals ...got MetricsState"),
    "totals for a state": (
        lambda: metrics.clear_finished(totals),
        "Metrics: state ...got Totals",
    ),
    "experience for rows": (
        lambda: metrics.init(rows),
        "Metrics: rows ...got Experience",
    ),
    "number of names": (lambda: rollout.Metrics(env_info=3), "Metrics: env_info ...got 3"),
    "function of a fold": (
        lambda: fold(fn="f"),
        "fold: fn ...got 'f'",
    ),
    "text to fold": (lambda: fold(value={"sum": "x"}), "fold: value.sum ...got 'x'"),
    "legacy key": (lambda: fold(key=jax.random.PRNGKey(0)), "fold: key ...got uint32[2]"),
    "key of an unroll": (lambda: unroll(key=3), "unroll: key ...got 3"),
    "number of fields": (lambda: unroll(fields=3), "unroll: fields ...got 3"),
    "memory of text": (
        lambda: jaxenv.unroll(env, lambda t, s, m: 0, state, timestep, 2, initial_memory={"hidden": "x"}),
        "unroll: initial_memory.hidden ...got 'x'",
    ),
    "captions": (
        lambda: jaxenv.film(jaxenv.make("CartPole-v1"), captions="no"),
        "film: captions ...got 'no'",
    ),
    "path of a film": (lambda: jaxenv.record(env, path=3), "record: path ...got 3"),
    "no path of a table": (lambda: rollout.CSV(None), "CSV: path ...got None"),
    "text for columns": (lambda: rollout.Table("reward"), "Table: columns ...got 'reward'"),
    "no open file": (lambda: rollout.Table(file="x"), "Table: file ...got 'x'"),
    "step in halves": (lambda: rollout.Table(None)(2.5, {"a": 1}), "Table: step ...got 2.5"),
    "step that is no number": (lambda: rollout.Table(None)(np.nan, {}), "Table: step ...got nan"),
    "list for metrics": (
        lambda: rollout.Table(None)(1, [1]),
        "Table: metrics ...got a list",
    ),
    "names to draw against": (
        lambda: rollout.TensorBoard("runs", against=[3]),
        "TensorBoard: against ...got [3]",
    ),
}


def _totals_with_gamma():
    other = rollout.Metrics(gamma=0.9)
    return other.totals(other.update_rows(other.init(timestep), rows.timestep))


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused_by_name(name):
    call, start = CALLS[name]
    with pytest.raises(ValueError, match=f"^{like(start)}"):
        call()


def test_a_table_is_not_written_to_a_folder_and_events_not_to_a_file(tmp_path):
    with pytest.raises(ValueError, match=r"CSV: path .*got the folder"):
        rollout.CSV(tmp_path)
    (tmp_path / "file").write_text("7")
    with pytest.raises(ValueError, match=r"TensorBoard: path .*got .*: .*file is a file"):
        rollout.TensorBoard(tmp_path / "file" / "events")


def test_writers_take_arrays_of_one_integer(tmp_path):
    with rollout.CSV(tmp_path / "run.csv") as write:
        write(jnp.int32(3), {"return_mean": 1.5})
        write(np.int64(4), {"return_mean": 2.5})
    assert (tmp_path / "run.csv").read_text().split() == ["step,return_mean", "3,1.5", "4,2.5"]
