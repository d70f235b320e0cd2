"""Launches of a step: what is counted in a compiled program, and that the counts of ten ids stay low."""

import json

import jax
import pytest

import jaxenv
from benchmarks import __main__ as program
from benchmarks import hlo, launches

PROGRAM = """\
HloModule rollout

%fused_store (f0: f32[8,16], f1: s32[], f2: f32[16]) -> f32[8,16] {
  %f0 = f32[8,16]{1,0} parameter(0)
  %f1 = s32[] parameter(1)
  %f2 = f32[16]{0} parameter(2)
  %row = f32[1,16]{1,0} bitcast(%f2)
  %zero = s32[] constant(0)
  ROOT %stored = f32[8,16]{1,0} dynamic-update-slice(%f0, %row, %f1, /*index=3*/%zero)
}

%relaid (h: f32[8,16]) -> f32[8,16] {
  %h = f32[8,16]{1,0} parameter(0)
  ROOT %hc = f32[8,16]{0,1} copy(%h)
}

%fused_relaid (k0: f32[8,16], k1: s32[], k2: f32[1,16]) -> f32[8,16] {
  %k0 = f32[8,16]{1,0} parameter(0)
  %k1 = s32[] parameter(1)
  %k2 = f32[1,16]{1,0} parameter(2)
  %kr = f32[8,16]{0,1} fusion(%k0), kind=kLoop, calls=%relaid
  ROOT %ks = f32[8,16]{1,0} dynamic-update-slice(%kr, %k2, %k1, %k1)
}

%fused_pick (g0: f32[8,16], g1: s32[]) -> (f32[1,16], f32[1,16]) {
  %g1 = s32[] parameter(1)
  %g0 = f32[8,16]{1,0} parameter(0)
  %picked = f32[1,16]{1,0} dynamic-slice(%g0, %g1, %g1), dynamic_slice_sizes={1,16}
  %half = f32[1,16]{1,0} multiply(%picked, %picked)
  ROOT %both = (f32[1,16]{1,0}, f32[1,16]{1,0}) tuple(%picked, %half)
}

%few (q: f32[16]) -> f32[16] {
  %q = f32[16]{0} parameter(0)
  ROOT %n = f32[16]{0} negate(%q)
}

%many (r: f32[16]) -> f32[16] {
  %r = f32[16]{0} parameter(0)
  %m1 = f32[16]{0} negate(%r)
  ROOT %m2 = f32[16]{0} copy(%m1)
}

%unfinished (u: f32[16]) -> pred[] {
  %u = f32[16]{0} parameter(0)
  ROOT %less = pred[] custom-call(%u), custom_call_target="all"
}

%ended (e: (s32[], f32[16])) -> pred[] {
  %limit = s32[] constant(8)
  %e = (s32[], f32[16]{0}) parameter(0)
  %counter = s32[] get-tuple-element(%e), index=0
  ROOT %lt = pred[] compare(%counter, %limit), direction=LT
}

%body (p: (s32[], f32[16], f32[8,16])) -> (s32[], f32[16], f32[8,16]) {
  %p = (s32[], f32[16]{0}, f32[8,16]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[16]{0} get-tuple-element(%p), index=1
  %rows = f32[8,16]{1,0} get-tuple-element(%p), index=2
%LINES%
  ROOT %t = (s32[], f32[16]{0}, f32[8,16]{1,0}) tuple(%i, %x, %rows)
}

ENTRY %main (a: f32[16]) -> f32[16] {
  %a = f32[16]{0} parameter(0)
  %reset = f32[16]{0} copy(%a), metadata={op_name="while(copy("}
  ROOT %loop = (s32[], f32[16]{0}, f32[8,16]{1,0}) while(%a), condition=%ended, body=%body%CONFIG%
}
"""
ROWS = ', backend_config={"known_trip_count":{"n":"8"}}'


def program_of(*lines, config=ROWS):
    return PROGRAM.replace("%LINES%", "\n".join(f"  {line}" for line in lines)).replace("%CONFIG%", config)


def counted(*lines, config=ROWS):
    return hlo.launches(program_of(*lines, config=config), 8)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%b = f32[4,4]{1,0} bitcast(%x)", {}),
        ("%c = f32[16]{0} copy(%x)", {"copies": 1, "bytes": 128}),
        ("%c = (f32[16]{0}, f32[16]{0}, u32[]) copy-start(%x)", {"copies": 1, "bytes": 128}),
        ("%c = f32[16]{0} copy-done(%c)", {}),
        ("%s = f32[16]{0:T(8)S(1)} add(%x, /*index=1*/%x), metadata={}", {"kernels": 1, "bytes": 128}),
        ("%l = (f32[16]{0}, u8[4]) custom-call(%x, %i)", {"others": 1, "bytes": 64 + 4 + 64 + 4}),
        ("%d = f32[8,16]{1,0} dynamic-update-slice(%rows, %x, %i, %i)", {"kernels": 1, "bytes": 64 + 64 + 4}),
        ("%f = f32[8,16]{1,0} fusion(%rows, %i, %x), calls=%fused_store", {"kernels": 1, "bytes": 64 + 64 + 4}),
        (
            "%f = ((f32[8,16], s32[], f32[16]), f32[8,16], u32[]) fusion-start(%rows, %i, %x), calls=%fused_store",
            {"kernels": 1, "bytes": 64 + 64 + 4},
        ),
        ("%f = (f32[1,16], f32[1,16]) fusion(%rows, %i), calls=%fused_pick", {"kernels": 1, "bytes": 64 + 4 + 128}),
        ("%f = f32[8,16] fusion(%rows, %i, %x), calls=%fused_relaid", {"kernels": 1, "bytes": 64 + 64 + 4}),
        ("%f = f32[8,16]{0,1} fusion(%rows), calls=%relaid", {"kernels": 1, "bytes": 1024}),
        ("%g = f32[16]{0} call(%x), to_apply=%many", {"kernels": 1, "copies": 1, "bytes": 256}),
        (
            '%w = f32[16] while(%x), condition=%unfinished, body=%few, backend_config={"known_trip_count":{"n":"3"}}',
            {"kernels": 3, "bytes": 3 * 128},
        ),
        (
            "%w = f32[16]{0} while(%x), condition=%unfinished, body=%few",
            {"kernels": 1, "others": 1, "branches": 1, "bytes": 128 + 65},
        ),
        (
            "%k = f32[16]{0} conditional(%i, %x, %x), branch_computations={%few, %many}",
            {"kernels": 1, "copies": 1, "branches": 1, "bytes": 256},
        ),
        (
            "%k = f32[16]{0} conditional(%i, %x, %x), true_computation=%many, false_computation=%few",
            {"kernels": 1, "copies": 1, "branches": 1, "bytes": 256},
        ),
    ],
)
def test_an_instruction_of_the_loop_body_is_counted_as_what_it_launches(line, expected):
    assert counted(line) == hlo.Launches(**expected)


def test_an_unrolled_body_counts_half_and_a_length_is_read_from_the_condition():
    lines = ("%c = f32[16]{0} copy(%x)", "%d = f32[16]{0} copy(%x)", "%n = f32[16]{0} negate(%x)")
    expected = hlo.Launches(kernels=1, copies=2, bytes=384)
    assert expected.total == 3
    assert counted(*lines) == counted(*lines, config="") == expected
    half = hlo.Launches(kernels=0.5, copies=1, bytes=192)
    assert counted(*lines, config=ROWS.replace("8", "4")) == half


def test_loops_inside_of_a_step_are_listed_with_all_of_their_rounds():
    def loop(name, body, rounds):
        count = f'backend_config={{"known_trip_count":{{"n":"{rounds}"}}}}'
        return f"%{name} = f32[16] while(%x), condition=%unfinished, body=%{body}, {count}"

    text = program_of("%c = f32[16]{0} copy(%x)", loop("v", "few", 3), loop("w", "many", 5))
    (three, few), (five, many) = hlo.loops(text, 8)
    assert (three, few.kernels, few.copies) == (3, 3, 0)
    assert (five, many.kernels, many.copies) == (5, 5, 5)


def test_an_update_of_a_learner_is_counted_on_this_machine(tmp_path):
    path = tmp_path / "updates.json"
    assert program.main(["updates", "--target", "local", "--learners", "sac", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["rows"]
    assert (row["learner"], row["id"], row["num_envs"]) == ("sac", "Pendulum-v1", 256)
    gradient_steps = max(row["loops"], key=lambda loop: loop["launches"])
    assert gradient_steps["rounds"] == 2
    assert 0 < gradient_steps["launches"] < row["launches"]


def test_a_program_without_the_loop_is_refused():
    with pytest.raises(ValueError, match="the program has no loop of 8 steps"):
        counted(config=ROWS.replace("8", "7"))


def test_the_command_counts_for_this_machine_and_adds_to_its_file(tmp_path, capsys):
    path = tmp_path / "launches.json"

    def run(*arguments):
        given = ["--target", "local", "--num-envs", "8", "--json", str(path), "--update", *arguments]
        assert program.run_part("launches", given) == 0
        return json.loads(path.read_text())["rows"]

    plot = tmp_path / "launches.png"
    (row,) = run("--ids", "CartPole-v1", "--plot", str(plot))
    assert plot.read_bytes().startswith(b"\x89PNG")
    mine, theirs = (row["contestants"][side] for side in ("jaxenv", "gymnax"))
    assert 0 < mine["launches"] == mine["kernels"] + mine["copies"] + mine["others"] < theirs["launches"]
    assert mine["branches"] == 0 < mine["temporary_bytes"]
    state_and_sums = 37 + 24
    assert 2 * state_and_sums < mine["bytes_per_lane"] < 20 * state_and_sums
    _, other = run("--ids", "Taxi-v4", "--store", "--peers")
    assert (other["id"], other["store"], set(other["contestants"])) == ("Taxi-v4", True, {"jaxenv"})
    assert capsys.readouterr().out.count("CartPole-v1") == 2


def test_the_side_of_our_loops_takes_the_steps_that_are_chosen_for_the_target(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # this machine stands for a GPU
    for store in (False, True):
        found = launches.compiled("local", "default", "CartPole-v1", 8, store)
        assert found["steps_per_iteration"] == 4
        assert found["launches"] * 4 == int(found["launches"] * 4) > 0
    assert launches.compiled("local", "jaxenv", "CartPole-v1", 8, False)["steps_per_iteration"] == 1


def test_what_does_not_compile_in_time_is_a_row_with_an_error():
    args = program.parse("launches", ["--target", "local", "--ids", "CartPole-v1", "--num-envs", "8", "--peers"])
    args.seconds = 0
    (row,) = launches.rows(args)
    assert row["contestants"] == {"jaxenv": {"error": "stopped after 0 s"}}
    assert "note: jaxenv, CartPole-v1, 8 lanes, sums: stopped after 0 s" in launches.report([row], args)


def test_a_missing_compiler_ends_the_command_with_one_line(monkeypatch, capsys):
    monkeypatch.setitem(launches.COMPILERS, "h100", "no_such.compiler")
    with pytest.raises(SystemExit) as stopped:
        program.main(["launches"])
    assert stopped.value.code == 2
    expected = "argument --target: h100 needs a compiler: pip install 'jaxenv[compilers]'"
    assert capsys.readouterr().err == f"jaxenv bench launches: {expected}\n"


# Launches of a step, in this order of targets and sides: at most these.
COMPILED = [("h100", "jaxenv"), ("h100", "unrolled"), ("v5e", "jaxenv")]
BOUNDS = {
    "CartPole-v1": (3, 2, 9),
    "Acrobot-v1": (3, 2, 9),
    "FrozenLake-v1": (3, 2, 7),
    "Catch-bsuite": (5, 4, 10),
    "FourRooms-misc": (5, 4, 9),
    "Asterix-MinAtar": (7, 6, 23),
    "Breakout-MinAtar": (10, 5, 19),
    "Freeway-MinAtar": (10, 7, 23),
    "Seaquest-MinAtar": (55, 11, 40),
    "MiniGrid-DoorKey-8x8-v0": (16, 10, 27),
}


@pytest.fixture(scope="module")
def compiler():
    """Returns the compiler of a target."""
    made = {}

    def of(target):
        if not launches.installed(target):
            pytest.skip(f"no compiler for {target} is installed")
        return made.setdefault(target, launches.Compiler(target, seconds=200))

    yield of
    for process in made.values():
        process.close()


@pytest.mark.compiled
@pytest.mark.parametrize(("target", "side"), COMPILED)
@pytest.mark.parametrize("id", BOUNDS)
def test_a_step_launches_no_more_than_before_and_has_no_branch(compiler, target, side, id):
    found = compiler(target)(launches.compiled, side, id, 2048, False)
    assert found["launches"] <= BOUNDS[id][COMPILED.index((target, side))]
    assert found["branches"] == 0


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["h100", "v5e"])
@pytest.mark.parametrize("id", jaxenv.ids())
def test_every_id_compiles(compiler, target, id):
    assert "error" not in compiler(target)(launches.compiled, "jaxenv", id, 2048, False)
