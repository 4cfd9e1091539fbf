"""Settings come from the environment and are checked before anything starts."""

import pytest
from pydantic import ValidationError

from services.router.policies import POLICIES
from services.router.settings import RouterSettings


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in (("NAME", "router-0"), ("RUN_DIR", "run"), ("BIND_ADDRESS", "ipc://r")):
        monkeypatch.setenv(f"TWINFLEET_{name}", value)
    return monkeypatch


def test_the_defaults_are_a_working_router(environment: pytest.MonkeyPatch) -> None:
    settings = RouterSettings()
    assert (settings.policy, settings.queue_limit) == ("kv_aware", 256)
    assert (settings.max_sequences_per_worker, settings.local_prefill_tokens) == (64, 256)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_named(environment: pytest.MonkeyPatch, policy: str) -> None:
    environment.setenv("TWINFLEET_POLICY", policy)
    assert RouterSettings().policy == policy


@pytest.mark.parametrize(
    ("name", "value"), [("POLICY", "magic"), ("QUEUE_LIMIT", "0"), ("INDEX_MAX_NODES", "0")]
)
def test_nonsense_is_refused(environment: pytest.MonkeyPatch, name: str, value: str) -> None:
    environment.setenv(f"TWINFLEET_{name}", value)
    with pytest.raises(ValidationError, match=name.lower()):
        RouterSettings()
