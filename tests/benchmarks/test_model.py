"""The paper model: what it reads from compiled programs, and what it expects of them."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from benchmarks import __main__ as program
from benchmarks import hlo, model

PROGRAM = """\
HloModule program

%body (p: (s32[], f32[10])) -> (s32[], f32[10]) {
  %p = (s32[], f32[10]{0}) parameter(0)
  %x = f32[10]{0} get-tuple-element(%p), index=1
  %sum = (f32[10]{0}, /*index=1*/pred[]) all-reduce(%x, %flag), to_apply=%add
  %inner = (s32[]) while(%p), condition=%done, body=%few, backend_config={"known_trip_count":{"n":"3"}}
  ROOT %t = (s32[], f32[10]{0}) tuple(%i, %x)
}

%few (q: s32[]) -> s32[] {
  ROOT %f = s32[] fusion(%q), kind=kLoop, calls=%fused
}

%long (b: f32[2]) -> f32[2] {
  %l1 = bf16[2]{0} convert(%b)
  ROOT %l2 = bf16[4]{0} all-gather(%l1), dimensions={0}
}

ENTRY %main (a: f32[10]) -> f32[10] {
  %a = f32[10]{0} parameter(0)
  %loop = (s32[], f32[10]{0}) while(%a), condition=%done, body=%body, backend_config={"known_trip_count":{"n":"7"}}
  %open = (s32[], f32[10]{0}) while(%a), condition=%done, body=%body
  %either = f32[2]{0} conditional(%p, %a, %a), branch_computations={%few, %long}
  ROOT %copy = f32[10]{0} copy(%a), metadata={op_name="while(all-reduce("}
}
"""


def test_kernels_and_collectives_of_loops_are_counted_by_their_rounds():
    work = hlo.work(PROGRAM)
    assert work.kernels == 7 * (1 + 3) + 2 + 1
    assert work.collectives == 7 + 1
    assert work.collective_bytes == 7 * (40 + 1) + 8
    assert work.open_loops == 1


@pytest.mark.compiled
def test_a_program_of_this_compiler_is_read():
    def loop(x):
        return jax.lax.fori_loop(0, 1000, lambda _, x: jnp.sin(x @ x), x)

    work = hlo.work(jax.jit(loop).lower(jnp.zeros((64, 64))).compile().as_text())
    assert work.kernels >= 2000
    assert work[1:] == (0, 0, 0)


def test_an_all_reduce_takes_longer_between_nodes_and_nothing_on_one_accelerator():
    given = model.Assumptions(reached_link=1.0)
    assert given.all_reduce_seconds(10, 1e9, 1) == 0
    assert given.all_reduce_seconds(10, 0, 8) == pytest.approx(10 * given.latency_in_node)
    assert given.all_reduce_seconds(0, 1e9, 8) == pytest.approx(2 * 7 / 8 * 1e9 / given.link_in_node)
    assert given.all_reduce_seconds(0, 1e9, 16) == pytest.approx(2 * 15 / 16 * 1e9 / given.link_between_nodes)


def test_the_command_reads_the_bytes_of_a_step_and_the_gradients_of_an_update(tmp_path):
    path = tmp_path / "model.json"
    line = [sys.executable, "-m", "benchmarks", "model", "--num-envs", "64", "--json", str(path)]
    subprocess.run(line, check=True, capture_output=True, timeout=600)
    step, weak, strong = json.loads(path.read_text())["rows"]
    state, timestep = 37, 37  # tests/benchmarks/test_parts.py
    pointers = 17 * 8 / 64  # of the arrays that are returned
    assert step["bytes_per_step"] == pytest.approx(2 * state + timestep + 4 + pointers)
    assert step["collectives"] == 0
    steps = 32  # 8 epochs of 4 minibatches
    assert steps * 4 * weak["weights"] < weak["collective_bytes"] < 1.02 * steps * 4 * weak["weights"]
    assert weak["efficiency"]["1"] == 1 > weak["efficiency"]["8"] > weak["efficiency"]["1024"]
    assert strong["num_envs"] == 64 * weak["num_envs"]


# --- one GPU ---------------------------------------------------------------------------------------------------------


def launches_file(tmp_path, **changed):
    def row(id, num_envs, store=False, **ours):
        return {"id": id, "num_envs": num_envs, "store": store, "contestants": {"jaxenv": ours}}

    rows = [
        row("CartPole-v1", 65536, launches=4, bytes_per_lane=1),
        row("CartPole-v1", 2048, launches=3, bytes_per_lane=114),
        row("Taxi-v4", 2048, error="the compiler gave up"),
        row("Catch-bsuite", 2048, launches=5, bytes_per_lane=126),
        row("CartPole-v1", 2048, store=True, launches=7, bytes_per_lane=1),
    ]
    path = tmp_path / "launches.json"
    path.write_text(json.dumps({"benchmark": "launches", "record": {"device": "cpu"}, "rows": rows} | changed))
    return str(path)


def test_a_gpu_takes_the_time_of_its_launches_and_of_its_traffic(tmp_path, capsys):
    out = tmp_path / "model.json"
    assert program.run_part("model", ["--launches", launches_file(tmp_path), "--json", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["id"] for row in rows] == ["CartPole-v1", "Catch-bsuite"]
    given = model.Assumptions()
    seconds = 3 * given.kernel_seconds + 2**17 * 114 / (given.reached_bandwidth * 3.35e12)
    assert rows[0]["steps_per_second"]["H100"][str(2**17)] == pytest.approx(2**17 / seconds)
    assert ["CartPole-v1", "3", "114"] in [line.split()[:3] for line in capsys.readouterr().out.splitlines()]


def test_the_model_of_a_gpu_takes_a_file_of_launches_only(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        program.run_part("model", ["--launches", launches_file(tmp_path, benchmark="throughput")])
    assert "--launches: must be a file of launches, got one of throughput" in capsys.readouterr().err
