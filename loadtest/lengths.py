"""How many tokens, or turns: a number, or a distribution over numbers. Pure."""

import math
from random import Random
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class _Kind(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Fixed(_Kind):
    """Always the same."""

    kind: Literal["fixed"] = "fixed"
    tokens: int = Field(ge=1, description="So many.")

    def draw(self, random: Random) -> int:
        return self.tokens

    def __str__(self) -> str:
        return str(self.tokens)


class _Between(_Kind):
    low: int = Field(ge=1, description="The least.")
    high: int = Field(ge=1, description="The most; included.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self


class Uniform(_Between):
    """Every whole number from `low` to `high` alike."""

    kind: Literal["uniform"] = "uniform"

    def draw(self, random: Random) -> int:
        return random.randint(self.low, self.high)

    def __str__(self) -> str:
        return f"uniform, {self.low} to {self.high}"


class LogNormal(_Between):
    """Many short, few long."""

    kind: Literal["lognormal"] = "lognormal"
    mean: float = Field(gt=0, description="Before clipping to low and high.")
    sigma: float = Field(gt=0, description="Standard deviation of the logarithm.")

    def draw(self, random: Random) -> int:
        mu = math.log(self.mean) - self.sigma**2 / 2
        drawn = random.lognormvariate(mu, self.sigma)
        return round(min(max(drawn, self.low), self.high))

    def __str__(self) -> str:
        return f"lognormal of mean {self.mean:g}, {self.low} to {self.high}"


def _of_number(value: object) -> object:
    return Fixed(tokens=value) if type(value) is int else value


Lengths = Annotated[
    Annotated[Fixed | Uniform | LogNormal, Field(discriminator="kind")], BeforeValidator(_of_number)
]
