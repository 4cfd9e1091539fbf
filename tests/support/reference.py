"""The answer runners are held to: a decoder written as its formulas, with no cache and no batch.

It reads a Hugging Face folder by itself and imports nothing of the engine or of `common.model`, so
a mistake there cannot repeat here. Everything is float32; one head at a time, one whole sequence.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    frequencies: Tensor
    """[head_dim / 2], radians a position."""


class Reference:
    def __init__(self, shape: Shape, tensors: Mapping[str, np.ndarray]) -> None:
        self._shape = shape
        self._tensors = {name: torch.tensor(array) for name, array in tensors.items()}

    @classmethod
    def from_folder(cls, folder: Path) -> "Reference":
        config = json.loads((folder / "config.json").read_text())
        shape = Shape(
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            eps=config["rms_norm_eps"],
            frequencies=rope_frequencies(config["rope_parameters"], config["head_dim"]),
        )
        return cls(shape, load_file(folder / "model.safetensors"))

    @torch.inference_mode()
    def logits(self, tokens: Sequence[int], start: int = 0) -> Tensor:
        """[tokens - start, vocab]: what follows each position from `start` on."""
        x = self._tensors["model.embed_tokens.weight"][torch.tensor(tokens)]
        for layer in range(self._shape.layers):
            name = f"model.layers.{layer}"
            x = x + self._attention(f"{name}.self_attn", self._norm(f"{name}.input_layernorm", x))
            x = x + self._mlp(f"{name}.mlp", self._norm(f"{name}.post_attention_layernorm", x))
        x = self._norm("model.norm", x[start:])
        untied = "lm_head.weight" in self._tensors
        head = self._tensors["lm_head.weight" if untied else "model.embed_tokens.weight"]
        return x @ head.T

    def greedy_token_by_token(self, prompt: Sequence[int], count: int) -> list[int]:
        """Everything is computed anew for each token."""
        tokens = list(prompt)
        for _ in range(count):
            last = self.logits(tokens, start=len(tokens) - 1)[-1]
            tokens.append(int(np.argmax(last.numpy())))
        return tokens[len(prompt) :]

    def _attention(self, name: str, x: Tensor) -> Tensor:
        shape = self._shape
        queries, keys, values = (
            self._project(f"{name}.{part}_proj", x).split(shape.head_dim, dim=1) for part in "qkv"
        )
        future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        mixed = []
        for head, query in enumerate(queries):
            source = head * shape.kv_heads // shape.heads
            turned = self._rotate(self._head_norm(f"{name}.q_norm", query))
            key = self._rotate(self._head_norm(f"{name}.k_norm", keys[source]))
            scores = turned @ key.T / math.sqrt(shape.head_dim)
            shares = torch.softmax(scores.masked_fill(future, -math.inf), dim=1)
            mixed.append(shares @ values[source])
        return self._project(f"{name}.o_proj", torch.cat(mixed, dim=1))

    def _mlp(self, name: str, x: Tensor) -> Tensor:
        gate = self._project(f"{name}.gate_proj", x)
        return self._project(
            f"{name}.down_proj", gate * torch.sigmoid(gate) * self._project(f"{name}.up_proj", x)
        )

    def _project(self, name: str, x: Tensor) -> Tensor:
        product = x @ self._tensors[f"{name}.weight"].T
        bias = self._tensors.get(f"{name}.bias")
        return product if bias is None else product + bias

    def _norm(self, name: str, x: Tensor) -> Tensor:
        size = torch.sqrt(torch.mean(x * x, dim=1, keepdim=True) + self._shape.eps)
        return x / size * self._tensors[f"{name}.weight"]

    def _head_norm(self, name: str, x: Tensor) -> Tensor:
        return self._norm(name, x) if f"{name}.weight" in self._tensors else x

    def _rotate(self, x: Tensor) -> Tensor:
        """Dimensions i and i + half are the parts of a complex number that each position turns."""
        half = self._shape.head_dim // 2
        angles = torch.arange(len(x))[:, None] * self._shape.frequencies
        turned = torch.complex(x[:, :half], x[:, half:]) * torch.polar(
            torch.ones_like(angles), angles
        )
        return torch.cat((turned.real, turned.imag), dim=1)


def rope_frequencies(rope: Mapping[str, Any], head_dim: int) -> Tensor:
    """From the `rope_parameters` of a config.json."""
    plain = [rope["rope_theta"] ** (-2 * i / head_dim) for i in range(head_dim // 2)]
    match rope["rope_type"]:
        case "default":
            scaled = plain
        case "linear":
            scaled = [value / rope["factor"] for value in plain]
        case "llama3":
            scaled = [_llama3(value, rope) for value in plain]
        case other:
            raise AssertionError(f"no formula for {other}")
    return torch.tensor(scaled, dtype=torch.float32)


def _llama3(frequency: float, rope: Mapping[str, Any]) -> float:
    context = rope["original_max_position_embeddings"]
    wavelength = 2 * math.pi / frequency
    if wavelength < context / rope["high_freq_factor"]:
        return frequency
    if wavelength > context / rope["low_freq_factor"]:
        return frequency / rope["factor"]
    kept = (context / wavelength - rope["low_freq_factor"]) / (
        rope["high_freq_factor"] - rope["low_freq_factor"]
    )
    return (1 - kept) * frequency / rope["factor"] + kept * frequency
