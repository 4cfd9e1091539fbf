"""Every message and its tag. Tags are never reused; a new message takes the next free one."""

from common.wire.messages.cluster import (
    ClusterView,
    Goodbye,
    Hello,
    Pulse,
    StoreView,
    Welcome,
)
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot, SnapshotWanted
from common.wire.messages.store import Found, LeaseDone, Lookup, Offer, Taken
from common.wire.messages.submit import Cancel, Failed, Placed, Submit
from common.wire.messages.tokens import FinishAck, Finished, TokenBatch
from common.wire.messages.work import (
    Accepted,
    Assign,
    Blocks,
    Ended,
    FirstTokens,
    Prefill,
    PromptDone,
    Released,
    Renew,
)

Message = (
    Hello | Welcome | Pulse | ClusterView | StoreView | Goodbye
    | Submit | Placed | Failed | Cancel
    | Assign | Accepted | PromptDone | Ended
    | Prefill | Blocks | FirstTokens | Released | Renew
    | TokenBatch | Finished | FinishAck
    | Offer | Taken | Lookup | Found | LeaseDone
    | BlocksStored | BlocksRemoved | SnapshotWanted | Snapshot
)  # fmt: skip

TAGS: dict[int, type] = {
    1: Hello,
    2: Welcome,
    3: Pulse,
    4: ClusterView,
    5: StoreView,
    6: Goodbye,
    10: Submit,
    11: Placed,
    12: Failed,
    13: Cancel,
    20: Assign,
    21: Accepted,
    22: PromptDone,
    23: Ended,
    24: Prefill,
    25: Blocks,
    26: FirstTokens,
    27: Released,
    28: Renew,
    30: TokenBatch,
    31: Finished,
    32: FinishAck,
    40: Offer,
    41: Taken,
    42: Lookup,
    43: Found,
    44: LeaseDone,
    50: BlocksStored,
    51: BlocksRemoved,
    52: SnapshotWanted,
    53: Snapshot,
}

__all__ = [
    "TAGS",
    "Accepted",
    "Assign",
    "Blocks",
    "BlocksRemoved",
    "BlocksStored",
    "Cancel",
    "ClusterView",
    "Ended",
    "Failed",
    "FinishAck",
    "Finished",
    "FirstTokens",
    "Found",
    "Goodbye",
    "Hello",
    "LeaseDone",
    "Lookup",
    "Message",
    "Offer",
    "Placed",
    "Prefill",
    "PromptDone",
    "Pulse",
    "Released",
    "Renew",
    "Snapshot",
    "SnapshotWanted",
    "StoreView",
    "Submit",
    "Taken",
    "TokenBatch",
    "Welcome",
]
