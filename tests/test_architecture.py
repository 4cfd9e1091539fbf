"""The rules of docs/architecture that a machine can check.

A rule runs over what is there, so it needs no change when a package is added. Exceptions stand in
the lists below with their reasons; one that is no longer needed fails, so the lists only shrink.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source_tree import (
    ROOT,
    Module,
    Size,
    called,
    calls,
    imports,
    modules,
    product,
    sizes,
)

CAPS = {
    "file lines": 400,
    "function lines": 60,
    "class lines": 250,
    "parameters": 6,
    "nesting": 4,
}
OVERSIZED: dict[str, str] = {}
"""`place:name kind` -> why it may be larger."""

COVERED_BY: dict[str, str] = {
    "common/checkpoint/config_json.py": "tests/common/checkpoint/test_hf_config.py",
    "common/checkpoint/errors.py": "tests/common/checkpoint/test_atomic_file.py",
    "common/checkpoint/prepared_file.py": "tests/common/checkpoint/test_prepared.py",
    "common/checkpoint/tensor_shapes.py": "tests/common/checkpoint/test_gguf_file.py",
    "common/checkpoint/tokenizer_source.py": "tests/common/checkpoint/test_gguf_tokenizer.py",
    "common/model/archs/llama.py": "tests/contracts/test_archs.py",
    "common/model/archs/qwen3.py": "tests/contracts/test_archs.py",
    "common/model/attention/heads.py": "tests/contracts/test_archs.py",
    "common/model/decoder.py": "tests/contracts/test_archs.py",
    "deploy/local/run_plan.py": "tests/deploy/local/test_launch.py",
    "loadtest/record.py": "tests/loadtest/test_measurement.py",
    "services/kvstore/settings.py": "tests/contracts/test_topologies.py",
}
"""Modules with code whose tests stand elsewhere than at the mirrored place, and where."""

TYPE_IGNORES = 10
"""In product and tests together."""

PURE = (
    "common/domain/",
    "common/kv/",
    "common/engine/allocation.py",
    "common/engine/allocators/",
    "common/engine/schedulers/",
    "common/engine/sequence.py",
    "common/engine/step_cost.py",
    "common/engine/step_plan.py",
    "common/engine/prefix_cache.py",
    "common/engine/roster.py",
    "services/router/lifecycle.py",
    "services/router/index.py",
    "services/router/placement.py",
    "services/router/plan.py",
    "services/router/policies/",
    "services/kvstore/directory.py",
    "services/kvstore/leases.py",
    "services/kvstore/eviction/",
    "services/gateway/streams.py",
    "deploy/local/topology.py",
    "deploy/local/plan.py",
    "deploy/local/backoff.py",
    "deploy/local/preflight.py",
    "deploy/local/log_lines.py",
    "services/router/feed.py",
    "services/router/load.py",
    "services/router/membership.py",
    "services/router/queue.py",
    "services/gateway/text_output.py",
    "services/gateway/token_rows.py",
    "services/gateway/cluster.py",
    "loadtest/answer.py",
    "loadtest/comparison.py",
    "loadtest/experiment.py",
    "loadtest/knee.py",
    "loadtest/measurement.py",
    "loadtest/metrics.py",
    "loadtest/numbers.py",
    "loadtest/plain.py",
    "loadtest/progress.py",
    "loadtest/ratio_tables.py",
    "loadtest/ratios.py",
    "loadtest/record.py",
    "loadtest/search.py",
    "loadtest/session.py",
    "loadtest/sse.py",
    "loadtest/tables.py",
    "loadtest/verdict.py",
    "loadtest/vllm_bench.py",
)
IMPURE = {"asyncio", "zmq", "torch", "time", "random", "logging", "structlog"}

WITHOUT_TORCH = (
    "services.gateway.app",
    "services.router.app",
    "services.kvstore.app",
    "common.engine.mock",
    "common.runtime.service",
    "common.store.transfer",
    "deploy.local.cli",
    "loadtest.cli",
)

FORBIDDEN_IMPORTS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
FORBIDDEN_CALLS = {"eval", "exec", "torch.load", "os.system", "__import__"}
FORBIDDEN_METHODS = {"recv_pyobj", "send_pyobj"}

LOGGERS = {"log", "logger", "_log"}
LOG_METHODS = {"debug", "info", "warning", "error", "critical", "exception"}
NEVER_LOGGED = {"prompt", "text", "messages", "content", "token_ids", "tokens", "ids", "body"}

ALL = modules("common", "services", "deploy", "loadtest", "tests")


def by_place(module: Module) -> str:
    return module.place


def test_there_is_something_to_check() -> None:
    assert len(product()) > 30


def test_nothing_is_larger_than_its_cap() -> None:
    measured = [size for module in ALL for size in sizes(module) if _counts(size)]
    large = {_key(size): size.value for size in measured if size.value > CAPS[size.kind]}
    new = {key: value for key, value in large.items() if key not in OVERSIZED}
    assert not new, f"over the caps {CAPS}"
    assert not OVERSIZED.keys() - large.keys(), "these are within the caps now: unlist them"


def _counts(size: Size) -> bool:
    """A parametrized test names each of its columns."""
    return size.kind != "parameters" or not size.what.startswith("tests/")


def _key(size: Size) -> str:
    return f"{size.what} {size.kind}"


def test_the_layers_hold() -> None:
    lint = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert lint.returncode == 0, lint.stdout[-3000:] + lint.stderr


def test_every_module_with_code_has_its_tests_at_the_mirrored_place() -> None:
    untested = [
        module.place
        for module in product()
        if module.has_code
        and module.path.name not in ("__init__.py", "__main__.py")
        and not _mirror(module).exists()
    ]
    unknown = [place for place in untested if place not in COVERED_BY]
    assert not unknown, "\n".join(["no tests at the mirrored place for", *unknown])
    assert not set(COVERED_BY) - set(untested), "these have tests of their own now: unlist them"


def _mirror(module: Module) -> Path:
    place = module.path.relative_to(ROOT)
    return ROOT / "tests" / place.with_name(f"test_{place.name}")


@pytest.mark.parametrize(("place", "test"), COVERED_BY.items())
def test_where_a_module_is_tested_elsewhere_the_tests_are_there(place: str, test: str) -> None:
    assert (ROOT / place).exists()
    assert (ROOT / test).exists()


def _packages_with_a_table() -> list[Module]:
    return [m for m in product() if m.path.name == "__init__.py" and m.text.strip()]


@pytest.mark.parametrize("package", _packages_with_a_table(), ids=by_place)
def test_a_package_that_is_not_empty_is_a_table_of_all_its_modules(package: Module) -> None:
    named = set(imports(package.tree)) | {
        node.value.split(":")[0]
        for node in ast.walk(package.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    members = {
        f"{package.dotted}.{path.stem}"
        for path in package.path.parent.glob("*.py")
        if path.name != "__init__.py"
    }
    assert members - named == set()


def _settings_fields() -> list[tuple[str, str, ast.AnnAssign]]:
    """(place of the settings file, field, its definition)."""
    return [
        (module.place, field.target.id, field)
        for module in product()
        if module.path.name == "settings.py"
        for owner in module.tree.body
        if isinstance(owner, ast.ClassDef)
        for field in owner.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    ]


@pytest.mark.parametrize(
    ("place", "name", "field"),
    [pytest.param(*found, id=f"{found[0]}:{found[1]}") for found in _settings_fields()],
)
def test_a_setting_is_described_and_somebody_reads_it(
    place: str, name: str, field: ast.AnnAssign
) -> None:
    keywords = {
        keyword.arg: keyword.value
        for call in ([field.value] if isinstance(field.value, ast.Call) else [])
        for keyword in call.keywords
    }
    described = keywords.get("description")
    assert isinstance(described, ast.Constant), "a field needs Field(description=...)"
    assert str(described.value).strip().endswith(".")
    package = place.rsplit("/", 1)[0]
    readers = product() if package.startswith("common/") else modules(package)
    assert any(
        isinstance(node, ast.Attribute) and node.attr == name
        for module in readers
        if module.path.name != "settings.py"
        for node in ast.walk(module.tree)
    ), f"nobody in {package} reads it"


@pytest.mark.parametrize("dotted", WITHOUT_TORCH)
def test_importing_it_does_not_import_torch(dotted: str) -> None:
    if not (ROOT / dotted.replace(".", "/")).with_suffix(".py").exists():
        pytest.skip("not there yet")
    script = f"import sys, {dotted}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "torch was imported"


def test_torch_is_there_for_the_rule_above_to_mean_something() -> None:
    assert importlib.util.find_spec("torch") is not None


@pytest.mark.parametrize("module", product(), ids=by_place)
def test_a_module_keeps_to_what_is_allowed(module: Module) -> None:
    tops = {name.split(".")[0] for name in imports(module.tree)}
    if not module.place.startswith("common/wire/"):
        assert not tops & {"zmq", "msgpack"}, "only common/wire speaks these"
    assert not tops & FORBIDDEN_IMPORTS
    if module.place.startswith(PURE):
        assert not tops & IMPURE, "a pure file takes time and randomness as arguments"
    for call in calls(module.tree):
        name = called(call)
        assert name not in FORBIDDEN_CALLS, f"line {call.lineno}"
        assert name.rsplit(".", 1)[-1] not in FORBIDDEN_METHODS, f"line {call.lineno}"
        unpickles = any(k.arg == "allow_pickle" for k in call.keywords)
        assert not unpickles, f"line {call.lineno}"


@pytest.mark.parametrize("module", product(), ids=by_place)
def test_prompts_and_tokens_are_not_logged(module: Module) -> None:
    for call in calls(module.tree):
        *_, owner, method = ["", *called(call).split(".")]
        if owner in LOGGERS and method in LOG_METHODS:
            said = {keyword.arg for keyword in call.keywords}
            assert not said & NEVER_LOGGED, f"line {call.lineno}"
            event = call.args[0] if call.args else None
            assert isinstance(event, ast.Constant), f"line {call.lineno}: an event is a fixed name"
            assert re.fullmatch(r"[a-z][a-z0-9_]*", str(event.value)), f"line {call.lineno}"


@pytest.mark.parametrize("module", product(), ids=by_place)
def test_a_module_says_what_it_is(module: Module) -> None:
    if module.text.strip():
        assert ast.get_docstring(module.tree), "a docstring, please"


def test_the_budget_of_type_ignores_is_kept() -> None:
    marker = "type: " + "ignore"
    found = [
        f"{module.place}:{number}"
        for module in ALL
        for number, line in enumerate(module.text.splitlines(), 1)
        if marker in line
    ]
    assert len(found) <= TYPE_IGNORES, found
