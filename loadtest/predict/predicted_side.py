"""From a side of a scenario to the workers that would be started for it.

The plan of `make up` decides: what a worker would read from its environment is read here.
"""

from pathlib import Path

from common.engine.bench.costs.step_costs import StepCosts
from common.engine.engine import EngineLimits
from common.runtime.settings import ENV_PREFIX
from common.worker.settings import WorkerSettings
from deploy.local.plan import ProcessSpec, Site, plan, ports_needed
from loadtest.cluster import checked, environment
from loadtest.errors import LoadTestError
from loadtest.predict.routing import DEFAULT_POLICY, POLICIES
from loadtest.predict.simulated_cluster import ClusterPlan
from loadtest.predict.simulated_worker import WorkerPlan
from loadtest.scenario import Side

PAGE_BYTES = 4096
MOST_SEQUENCES = 64


def cluster_plan(side: Side, costs: StepCosts) -> ClusterPlan:
    """Raises LoadTestError where the costs do not fit, or nothing is known of a policy."""
    topology = checked(side)
    workers = topology.prefill.count + topology.decode.count
    ports = tuple(range(ports_needed(topology)))
    # As many cores as workers: costs are those of an engine that has a core to itself.
    site = Site(Path(), Path(), 0, ports, workers, environment(side))
    specs = plan(topology, site, "")
    (router,) = (spec for spec in specs if spec.role == "router")
    policy = _setting(router, "policy") or DEFAULT_POLICY
    if policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise LoadTestError(f"side {side.name}: policy {policy} is not predicted; {known} are")
    most = int(_setting(router, "max_sequences_per_worker") or MOST_SEQUENCES)
    return ClusterPlan(
        prefill=tuple(_worker(spec, costs) for spec in specs if spec.role == "prefill"),
        decode=tuple(_worker(spec, costs) for spec in specs if spec.role == "decode"),
        policy=policy,
        max_sequences=most,
    )


def _setting(spec: ProcessSpec, name: str) -> str:
    return spec.env.get(f"{ENV_PREFIX}{name.upper()}", "")


def _worker(spec: ProcessSpec, costs: StepCosts) -> WorkerPlan:
    fields = {name: _setting(spec, name) for name in WorkerSettings.model_fields}
    given = {name: value for name, value in fields.items() if value}
    settings = WorkerSettings.model_validate(given)
    if settings.threads != 1:
        raise LoadTestError(f"{spec.name} has {settings.threads} threads, and costs are of one")
    block_tokens = settings.block_tokens
    slot_bytes = -(-block_tokens * costs.token_bytes // PAGE_BYTES) * PAGE_BYTES
    room = settings.kv_pool_bytes // slot_bytes
    if costs.kv_tokens is not None:
        room = costs.kv_tokens // block_tokens
    limits = EngineLimits(
        step_tokens=settings.step_tokens,
        max_sequences=settings.max_sequences,
        tpot_target_ms=settings.tpot_target_ms,
        context_tokens=settings.context_tokens,
        scheduler=settings.scheduler,
        allocator=settings.allocator,
    )
    return WorkerPlan(spec.name, limits, block_tokens, max(2, room))
