"""The decode worker: emits tokens, one step for all its streams; prefills by itself when planned
so.

Everything it does is common.worker's; the role decides what the router sends it.
"""

from common.domain.ids import ProcessId
from common.domain.peer import Role
from common.worker.build import build_parts
from common.worker.worker import Worker
from services.decode.settings import DecodeSettings


def build(settings: DecodeSettings, me: ProcessId) -> Worker:
    return Worker(Role.DECODE, build_parts(settings, me), settings.router_address)
