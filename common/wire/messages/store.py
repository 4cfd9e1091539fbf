"""Workers and kvstore: offering blocks, finding them again. Bytes move by pull, both ways."""

from dataclasses import dataclass

from common.domain.block import LayoutTag


@dataclass(frozen=True, slots=True)
class Offer:
    """Worker to kvstore: read these from my arena. Pinned there until Taken or lease end."""

    offer: int
    layout: LayoutTag
    parent: bytes
    """Hash of the unit before the first block's first unit."""
    units: bytes
    """Hash column: all units of the blocks, in chain order."""
    slots: bytes
    generations: bytes
    crcs: bytes


@dataclass(frozen=True, slots=True)
class Taken:
    """Kvstore to worker: done with the offer, whatever came of it."""

    offer: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """Worker to kvstore: how many of these consecutive blocks have you got?"""

    lookup: int
    layout: LayoutTag
    names: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """Kvstore to worker: the longest run from the first name on, leased until LeaseDone or the
    lease's end. Zero blocks carry no lease."""

    lookup: int
    lease: int
    slots: bytes
    generations: bytes
    crcs: bytes


@dataclass(frozen=True, slots=True)
class LeaseDone:
    lease: int
