"""`jaxenv render`: pictures of environments. tests/training/test_trained.py has those of trained policies."""

import pytest
from PIL import Image

from jaxenv import cli


@pytest.mark.parametrize("picture", [32, 256])
def test_an_environment_may_have_a_size_besides_that_of_its_picture(capsys, tmp_path, picture):
    file = tmp_path / "sea.png"
    argv = ["render", "DeepSea-bsuite", "--env", "size=3", "--num-steps", "2", "--out", str(file)]
    # The caption is wider than the smaller picture.
    assert cli.main([*argv, "--size", str(picture)]) == 0
    assert str(file) in capsys.readouterr().out
    with Image.open(file) as image:
        assert min(image.size) > picture


def test_a_baseline_is_rendered_by_its_name(capsys, tmp_path):
    file = tmp_path / "catch.png"
    argv = ["render", "baseline:Catch-bsuite", "--num-steps", "2", "--size", "32", "--out", str(file)]
    assert cli.main(argv) == 0
    assert "Catch-bsuite, seed" in capsys.readouterr().out
    assert file.is_file()
