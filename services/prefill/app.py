"""The prefill worker: computes prompts chunk by chunk and hands their KV over.

Everything it does is common.worker's; the role decides what the router sends it.
"""

from common.domain.ids import ProcessId
from common.domain.peer import Role
from common.worker.build import build_parts
from common.worker.worker import Worker
from services.prefill.settings import PrefillSettings


def build(settings: PrefillSettings, me: ProcessId) -> Worker:
    return Worker(Role.PREFILL, build_parts(settings, me), settings.router_address)
