"""How to install an extra from where jaxenv was installed."""

import json
import pathlib

import pytest

from jaxenv._util import source


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Makes this a package in ``site-packages`` with the given ``direct_url.json``."""

    def install(origin):
        class Distribution:
            @staticmethod
            def read_text(name):
                return None if origin is None or name != "direct_url.json" else json.dumps(origin)

        monkeypatch.setattr(source, "__file__", str(tmp_path / "site-packages" / "jaxenv" / "_util" / "source.py"))
        monkeypatch.setattr(source.metadata, "distribution", lambda name: Distribution)

    return install


def test_in_a_clone_the_command_names_the_clone(monkeypatch, tmp_path):
    root = pathlib.Path(source.__file__).parents[2]
    monkeypatch.chdir(tmp_path)
    assert source.install_command("training") == f'pip install "{root}[training]"'
    monkeypatch.chdir(root)
    assert source.install_command("training") == 'pip install ".[training]"'


def test_an_installation_from_a_folder_names_the_folder(installed, tmp_path):
    (tmp_path / "my clone").mkdir()
    (tmp_path / "my clone" / "pyproject.toml").touch()
    installed({"url": (tmp_path / "my clone").as_uri(), "dir_info": {}})
    assert source.clone() == tmp_path / "my clone"
    assert source.install_command("cli") == f'pip install "{tmp_path / "my clone"}[cli]"'


def test_an_installation_from_a_repository_names_its_address(installed):
    installed({"url": "https://example.org/jaxenv.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}})
    assert source.install_command("cli") == 'pip install "jaxenv[cli] @ git+https://example.org/jaxenv.git"'


@pytest.mark.parametrize("origin", [None, {}, {"url": "file:///nowhere/jaxenv", "dir_info": {}}])
def test_an_installation_from_elsewhere_points_to_a_clone(installed, origin):
    installed(origin)
    assert source.clone() is None
    assert source.install_command("cli") == 'pip install ".[cli]" in a clone of the repository'


def test_a_missing_library_is_named_with_its_extra():
    error = source.missing("TensorBoard", ImportError("no module", name="tensorboardX"), "tensorboard")
    assert str(error).startswith('TensorBoard needs tensorboardX: pip install "')
    assert str(error).endswith('[tensorboard]"')
