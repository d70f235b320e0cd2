"""Levels of imports, light imports, code over the whole batch, and docstrings of the public API."""

import ast
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import jaxenv

PACKAGE = pathlib.Path(jaxenv.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# From bottom to top. A module imports only from lower levels.
LEVELS = [
    {"_names", "_source", "_numeric", "_checks", "_export", "_library", "_typed_keys", "_html", "_player", "_terminal"},
    {"tree"},
    {"_declared", "_programs", "_count", "_structure", "_sum", "_processes", "_files"},
    {"_self_compiling", "_xla"},
    {"random", "_module", "canvas", "_rows_html", "_films"},
    {"specs", "timestep", "_moments", "_describe", "physics2d"},
    {"_describe_html", "_actions", "_bounds", "_fields", "_observation", "_state_checks"},
    {"_reward"},
    {"_task_checks"},
    {"environment"},
    {"task", "partition_specs"},
    {"wrapper", "elements", "_merging"},
    {"_restart"},
    {"_wrapper_bases", "_stack_data"},
    {"wrappers"},
    {"multitask", "step_where", "reset_where"},
    {"stack"},
    {"registry"},
    {"envs"},
    {"_make", "_env_data"},
    {"interop", "_spec_sheet"},
    {"suites"},
    {"rollout", "play"},
    {"data"},
    {"plot"},
    {"training"},
    {"testing"},
    {"cli"},
    {"_api"},
    {"__main__", "__init__"},
]

# Modules that may use vmap, with the reason.
ALLOWED_VMAP: dict[str, str] = {}


def parts(path):
    return path.relative_to(PACKAGE).with_suffix("").parts


def level(name):
    found = [i for i, names in enumerate(LEVELS) if name in names]
    assert found, f"{name} has no level: add it to LEVELS"
    return found[0]


def imports(tree, top_only=False):
    """Yields the names that a module imports, except those under ``if TYPE_CHECKING``."""
    typing_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    nodes = tree.body if top_only else ast.walk(tree)
    for node in nodes:
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: "/".join(parts(p)))
def test_modules_import_only_from_lower_levels(path):
    own = parts(path)[0]
    for name in imports(ast.parse(path.read_text())):
        package, _, rest = name.partition(".")
        module = PACKAGE / rest.split(".")[0]
        if package == "jaxenv" and rest and (module.with_suffix(".py").exists() or module.is_dir()):
            assert module.name == own or level(module.name) < level(own), f"{own} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: "/".join(parts(p)))
def test_modules_import_no_heavy_library_at_the_top(path):
    top = {name.split(".")[0] for name in imports(ast.parse(path.read_text()), top_only=True)}
    standard = set(sys.stdlib_module_names)
    # `import jaxenv` does not import the learners.
    learners = {"flax", "optax"} if parts(path)[0] == "training" and parts(path)[-1] != "__init__" else set()
    assert top - standard <= {"jax", "numpy", "chex", "jaxenv"} | learners, path


@pytest.mark.parametrize(
    "path", [p for p in FILES if parts(p)[0] in ("envs", "wrappers")], ids=lambda p: "/".join(parts(p))
)
def test_environments_and_wrappers_do_not_loop_over_lanes(path):
    source = ast.parse(path.read_text())
    assert not any(name.startswith("gymnax") for name in imports(source))
    for node in ast.walk(source):
        name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        assert name not in ("lax.map", "jax.lax.map"), path
        assert name != "jax.vmap" or parts(path)[-1] in ALLOWED_VMAP, path
        if isinstance(node, ast.For | ast.comprehension):
            looped = ast.unparse(node.iter)
            assert "num_envs" not in looped, f"{path}: loop over {looped}"
            assert "batch_size" not in looped, f"{path}: loop over {looped}"


def test_importing_jaxenv_starts_no_backend_and_imports_no_heavy_library():
    code = (
        "import sys, jax, jaxenv, jaxenv.cli\n"
        "jax.config.update('jax_num_cpu_devices', 2)\n"  # raises once a backend has started
        "heavy = {'gymnax', 'gymnasium', 'gym', 'brax', 'matplotlib', 'flax', 'optax', 'rich', 'IPython'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "print(*(hasattr(jaxenv.training, name) for name in ('seeds', 'ppo', 'dqn', 'sac', 'networks2')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True True True True False"]


PUBLIC = """
    make load register spec ids TimeStep StepType restart transition termination truncation Environment Task Wrapper
    reset_where unroll evaluate film record plot specs random tree wrappers elements rollout data suites testing
    training
"""


@pytest.mark.parametrize("name", PUBLIC.split())
def test_public_names_exist_and_have_docstrings(name):
    assert getattr(jaxenv, name).__doc__


DOCUMENTED = "random specs wrappers elements rollout data plot testing"


def public_objects():
    for module in (jaxenv, *(getattr(jaxenv, name) for name in DOCUMENTED.split())):
        for name in dir(module):
            x = getattr(module, name)
            ours = callable(x) and getattr(x, "__module__", "").startswith("jaxenv")
            if ours and not name.startswith("_"):
                yield pytest.param(x, id=f"{module.__name__}.{name}")


def takes_arrays(x):
    if inspect.isclass(x):
        return issubclass(x, jaxenv.Environment)
    return bool(re.search("Array|Tree|TimeStep|Stream", str(inspect.signature(x))))


@pytest.mark.parametrize("x", list(public_objects()))
def test_docstrings_of_public_names_state_shapes(x):
    doc = inspect.getdoc(x)
    assert doc
    if takes_arrays(x):  # a shape in brackets, or in words
        assert re.search(r"\[[A-Z*]|``\(\)``|shape|per lane|one lane|lanes|scalar|elementwise", doc), doc
    for name, method in vars(x).items() if inspect.isclass(x) else ():
        if inspect.isfunction(method) and not name.startswith("_"):
            assert inspect.getdoc(getattr(x, name)), name
