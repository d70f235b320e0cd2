"""The command line of the benchmarks: help texts, invalid arguments and exit status."""

import jax
import pytest

from benchmarks import __main__ as program


@pytest.mark.parametrize(
    ("part", "arguments", "message"),
    [
        ("throughput", ["--ids", "CartPole-v7"], "no environment 'CartPole-v7', did you mean"),
        ("throughput", ["--num-envs", "0"], "must be a whole number of at least 1, got '0'"),
        ("throughput", ["--repeats", "two"], "must be a whole number of at least 1, got 'two'"),
        ("throughput", ["--peers", "brax"], "invalid choice: 'brax'"),
        ("throughput", ["--json", "no/such/folder/a.json"], "it must be a file in an existing folder"),
        ("scaling", ["--plot", "plot.jpg"], "must end with .png, got 'plot.jpg'"),
        ("resets", ["--fractions", "1.5"], "must be a number from 0 to 1, got '1.5'"),
        ("compare", ["no.json", "no.json"], "cannot read 'no.json'"),
        ("compare", [__file__, __file__], "is not a result file of a benchmark"),
    ],
)
def test_invalid_arguments_exit_with_status_2_and_a_one_line_message(capsys, part, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        program.main([part, *arguments])
    assert stopped.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith(f"jaxenv bench {part}: ")
    assert message in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("part", program.PARTS)
def test_help_of_every_part_shows_its_options_and_defaults(capsys, part):
    with pytest.raises(SystemExit) as stopped:
        program.main([part, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: jaxenv bench {part}")
    assert ("--folder" if part in ("suite", "training") else "--json") in text
    assert "None" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a part is missing"),
        (["fly"], "no part 'fly'"),
        (["scalling"], "no part 'scalling', did you mean 'scaling'?"),
    ],
)
def test_missing_or_unknown_part_is_refused(capsys, arguments, message):
    assert program.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"jaxenv bench: {message}; the parts are throughput, ")


def test_help_lists_the_parts(capsys):
    assert program.main(["--help"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[3:]] == list(program.PARTS)


def test_compilation_cache_is_restored_after_a_benchmark():
    cached = jax.config.jax_enable_compilation_cache
    with pytest.raises(SystemExit):
        program.main(["limit", "--help"])
    assert jax.config.jax_enable_compilation_cache == cached
