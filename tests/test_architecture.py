"""Levels of imports, light imports, code over the whole batch, and docstrings of the public API."""

import ast
import collections
import functools
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import jaxenv
from jaxenv import Environment

PACKAGE = pathlib.Path(jaxenv.__file__).parent

# From bottom to top. A room is a folder or a module of the package; it imports only from rooms below.
FLOORS: list[set[str]] = [
    {"_util"},
    {"tree"},
    {"random", "canvas"},
    {"specs"},
    {"core"},
    {"envs", "rollout"},
    {"wrappers"},
    {"interop", "suites", "data", "testing"},
    {"training"},
    {"__init__"},
    {"cli"},
    {"__main__"},
]
# Learners are written as a user would write them.
LEARNERS = [
    PACKAGE / "training" / f"{name}.py" for name in ("ppo", "dqn", "sac", "ued", "paired", "self_play", "alphazero")
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def parts(path):
    return path.relative_to(PACKAGE).with_suffix("").parts


def imports(source, top_only=False):
    """Yields the names that a module imports, those for types and those by ``import_module`` included."""
    for node in source.body if top_only else ast.walk(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            if isinstance(name, ast.JoinedStr):
                name = name.values[0]
            if isinstance(name, ast.Constant):
                yield name.value


@functools.cache
def parsed():
    return [(path, ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py"))]


def sources(*rooms):
    return [(path, source) for path, source in parsed() if not rooms or parts(path)[0] in rooms]


def test_rooms_are_on_floors():
    entries = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert entries == set(FLOOR)
    assert len(entries) <= 17


def test_modules_import_only_from_rooms_below():
    wrong = []
    for path, source in sources():
        own = parts(path)[0]
        for name in imports(source):
            package, _, rest = name.partition(".")
            room = rest.split(".")[0]
            if package == "jaxenv":
                room = room if room in FLOOR else "__init__"  # a public name of the package
                if path in LEARNERS and room == "__init__":
                    continue
                if room != own and FLOOR[room] >= FLOOR[own]:
                    wrong.append(f"{'/'.join(parts(path))} imports {name}")
    assert not wrong


# Rooms in which no module imports itself, neither directly nor through others.
WITHOUT_CIRCLES = ("jaxenv/core", "jaxenv/training")


@pytest.mark.parametrize("room", WITHOUT_CIRCLES)
def test_no_module_of_a_room_imports_itself_through_others(room):
    folder = PACKAGE.parent / room
    modules = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in folder.rglob("*.py")}
    edges = {
        module: {name for found in imports(ast.parse(path.read_text())) for name in (found, found.rpartition(".")[0])}
        & (modules.keys() - {module})
        for module, path in modules.items()
    }
    assert sum(map(len, edges.values())) > 20
    while leaves := {module for module, imported in edges.items() if not imported & edges.keys()}:
        edges = {module: imported for module, imported in edges.items() if module not in leaves}
    assert not edges, "each of these imports another one: " + ", ".join(sorted(edges))


# The lines of the package, comments and docstrings included. Whoever raises it says in the commit what that bought.
BUDGET = 60_381


def test_the_package_stays_within_its_budget_of_lines():
    lines = collections.Counter()
    for path, _ in sources():
        lines[parts(path)[0]] += len(path.read_text().splitlines())
    print(*(f"{count:6d} {room}" for room, count in lines.most_common()), sep="\n")
    assert lines.total() <= BUDGET, f"{lines.total()} lines of {BUDGET}: {dict(lines.most_common())}"


def test_the_contract_fits_on_two_screens():
    public = [name for name in vars(Environment) if not name.startswith("_")]
    assert len(public) <= 23, public  # and the params of the task
    assert len(Environment.__abstractmethods__) <= 8, Environment.__abstractmethods__
    lines = {name: len((PACKAGE / "core" / f"{name}.py").read_text().splitlines()) for name in CONTRACT}
    assert all(lines[name] <= most for name, most in CONTRACT.items()), lines


# Files of the contract, with the lines that they may have.
CONTRACT = {"environment": 300, "task": 283, "wrapper": 158}


# Files of environments and wrappers that import private modules of other rooms, which no author needs.
ALLOWED_PRIVATE = {
    "envs/bsuite/mnist_bandit": "names the command that installs an extra",
    "envs/toy_text/tabular": "solves a task, compiled for its structure",
    "wrappers/episode/autoreset": "restarts lanes",
    "wrappers/episode/level_replay": "sets where episodes start",
    "wrappers/episode/trials": "restarts lanes",
    "wrappers/episode/resample_params": "reads and sets all declared leaves",
    "wrappers/recording/stats": "explains a state of another stack",
    "wrappers/recording/record_video": "sends frames of merged batches",
}


def test_environments_and_wrappers_import_only_public_names_of_other_rooms():
    wrong = set()
    for path, source in sources("envs", "wrappers"):
        if "stack" in parts(path) or path == PACKAGE / "wrappers" / "__init__.py":
            continue
        for name in imports(source):
            package, *rest = name.split(".")
            if package == "jaxenv" and rest[0] != parts(path)[0] and any(part.startswith("_") for part in rest):
                wrong.add("/".join(parts(path)))
    assert wrong == set(ALLOWED_PRIVATE)


PAINTS = {"Canvas", "Sprite"}
DEFINITIONS = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


def names(node, context=ast.expr_context):
    """Returns the names and attributes that a piece of code mentions."""
    found = (x for x in ast.walk(node) if isinstance(x, ast.Name | ast.Attribute) and isinstance(x.ctx, context))
    return {x.id if isinstance(x, ast.Name) else x.attr for x in found}


def test_environments_draw_from_draw_or_a_heading_on_and_nothing_else_stands_there():
    wrong = []
    for path, source in sources("envs"):
        tasks = [x for x in source.body if isinstance(x, ast.ClassDef) and x.bases]
        if not any(names(method) & PAINTS for task in tasks for method in task.body):
            continue  # a module that draws nothing, or nothing but pictures
        headings = [
            (number, len(line) - len(line.lstrip()))
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if re.fullmatch(" *# --- the picture -+", line)
        ]
        headings += [(x.lineno - 1, 4) for task in tasks for x in task.body if getattr(x, "name", "") == "draw"]
        nodes = [(node, task.lineno) for task in tasks for node in task.body]
        nodes += [(node, 0) for node in source.body if node not in tasks and isinstance(node, DEFINITIONS)]
        physics, picture = [], []
        for node, start in nodes:
            drawn = any(start < line < node.lineno and indent == node.col_offset for line, indent in headings)
            (picture if drawn else physics).append(node)
        used_above, used_below = (set().union(*map(names, half)) for half in (physics, picture))
        wrong_here = [node.name for node in physics if isinstance(node, ast.FunctionDef) and names(node) & PAINTS]
        for node in picture:
            own = {node.name} if hasattr(node, "name") else names(node, ast.Store)
            # What does not paint itself is used by what paints, and by nothing else.
            if not names(node) & PAINTS and (own & used_above or not own & used_below):
                wrong_here += own
        wrong += [f"{'/'.join(parts(path))}: {name}" for name in wrong_here]
    assert not wrong


def test_no_module_is_named_like_a_function_that_it_defines():
    wrong = []
    for path, source in sources():
        if any(isinstance(node, ast.FunctionDef) and node.name == path.stem for node in source.body):
            wrong.append("/".join(parts(path)))
    assert not wrong


def test_modules_import_no_heavy_library_at_the_top():
    wrong = []
    for path, source in sources():
        top = {name.split(".")[0] for name in imports(source, top_only=True)} - set(sys.stdlib_module_names)
        # `import jaxenv` does not import the learners.
        learners = (
            {"flax", "mctx", "optax"} if parts(path)[0] == "training" and parts(path)[-1] != "__init__" else set()
        )
        # Commands and what draws in a terminal are imported when a command runs.
        screens = {"rich"} if parts(path)[0] == "cli" or parts(path)[-1] == "_terminal" else set()
        if heavy := top - {"jax", "numpy", "chex", "jaxenv"} - learners - screens:
            wrong.append(f"{'/'.join(parts(path))} imports {heavy}")
    assert not wrong


def test_environments_and_wrappers_do_not_loop_over_lanes():
    wrong, over_weights = [], "wrappers/agents/opponent: jax.vmap"  # those of a league
    for path, source in sources("envs", "wrappers"):
        names = {ast.unparse(node) for node in ast.walk(source) if isinstance(node, ast.Attribute)}
        loops = [ast.unparse(node.iter) for node in ast.walk(source) if isinstance(node, ast.For | ast.comprehension)]
        found = names & {"lax.map", "jax.lax.map", "jax.vmap"}
        found |= {loop for loop in loops if "num_envs" in loop or "batch_size" in loop}
        found |= {name for name in imports(source) if name.startswith("gymnax")}
        wrong += [f"{'/'.join(parts(path))}: {name}" for name in sorted(found)]
    assert wrong == [over_weights]


def test_patterns_of_errors_leave_the_rule_open():
    """They name owner, argument and value, so that an error may word its rule otherwise."""
    spelt = re.compile(r"""\bmatch=\w*["'][^"'\n]*\w must [^"'\n]*\w, got """)
    found = {path: spelt.findall(path.read_text()) for path in pathlib.Path(__file__).parent.rglob("test_*.py")}
    assert not {path.name: patterns for path, patterns in found.items() if patterns}


def test_importing_jaxenv_starts_no_backend_and_imports_no_heavy_library():
    code = (
        "import sys, jax, jaxenv, jaxenv.cli\n"
        "jax.config.update('jax_num_cpu_devices', 2)\n"  # raises once a backend has started
        "heavy = {'chex', 'gymnax', 'gymnasium', 'gym', 'brax', 'matplotlib', 'flax', 'mctx', 'optax', 'rich'}\n"
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


def test_public_names_exist_and_have_docstrings():
    assert [name for name in PUBLIC.split() if not getattr(getattr(jaxenv, name, None), "__doc__", None)] == []


DOCUMENTED = "random specs wrappers elements rollout data plot testing"


def public_objects():
    for module in (jaxenv, *(getattr(jaxenv, name) for name in DOCUMENTED.split())):
        for name in dir(module):
            x = getattr(module, name)
            ours = callable(x) and getattr(x, "__module__", "").startswith("jaxenv")
            if ours and not name.startswith("_"):
                yield f"{module.__name__}.{name}", x


def takes_arrays(x):
    if inspect.isclass(x):
        return issubclass(x, jaxenv.Environment)
    return bool(re.search("Array|Tree|TimeStep|Stream", str(inspect.signature(x))))


def test_docstrings_of_public_names_state_shapes():
    wrong = []
    for name, x in public_objects():
        doc = inspect.getdoc(x) or ""
        # A shape in brackets, or in words.
        if not doc or (takes_arrays(x) and not re.search(SHAPES, doc)):
            wrong.append(name)
        for method_name, method in vars(x).items() if inspect.isclass(x) else ():
            if inspect.isfunction(method) and not method_name.startswith("_"):
                wrong += [] if inspect.getdoc(getattr(x, method_name)) else [f"{name}.{method_name}"]
    assert not wrong


SHAPES = r"\[[A-Z*]|``\(\)``|shape|per lane|one lane|lanes|scalar|elementwise"
