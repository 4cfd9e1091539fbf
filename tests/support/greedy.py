"""Is this the greedy continuation? Judged by one uncached forward over prompt and answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from common.checkpoint.prepared import prepare
from tests.support.reference import Reference, Shape, rope_frequencies

NEAR_TIE = 1e-4
"""Two best logits this close may swap: float32 sums of another order differ by as much."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`wrong`: positions of the answer that are not the argmax, near-ties left out."""

    wrong: tuple[int, ...]
    near_ties: int
    smallest_margin: float


@torch.inference_mode()
def judge(reference: Reference, prompt: Sequence[int], answer: Sequence[int]) -> Verdict:
    logits = reference.logits([*prompt, *answer[:-1]], start=len(prompt) - 1)
    best = logits.topk(2, dim=1)
    margins = best.values[:, 0] - best.values[:, 1]
    wrong, ties = [], 0
    for index, token in enumerate(answer):
        tie = bool(margins[index] < NEAR_TIE)
        ties += tie
        allowed = best.indices[index, : 2 if tie else 1].tolist()
        if token not in allowed:
            wrong.append(index)
    return Verdict(tuple(wrong), ties, float(margins.min()))


@cache
def reference_of(path: Path, cache_folder: Path) -> Reference:
    """The reference over a checkpoint's tensors, whatever file they are in."""
    prepared = prepare(path, "fp32", cache_folder)
    config = prepared.config
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    shape = Shape(
        layers=config.layers,
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        eps=config.rms_norm_eps,
        frequencies=rope_frequencies(rope, config.head_dim),
    )
    return Reference(shape, prepared.weights)


def disagreements(
    reference: Reference,
    prompts: Sequence[Sequence[int]],
    expected: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
) -> dict[int, Verdict]:
    """Answers that are not the expected ids, by place, unless they part at a near-tie and are the
    argmax everywhere else."""
    wrong = {}
    for place, (prompt, ids, answer) in enumerate(zip(prompts, expected, answers, strict=True)):
        if list(ids) == list(answer):
            continue
        verdict = judge(reference, prompt, answer)
        if verdict.wrong or not verdict.near_ties:
            wrong[place] = verdict
    return wrong
