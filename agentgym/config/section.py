"""The base of all recipe sections."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

#: no integer of a recipe but a seed may be larger; where so many would not fit into memory, the field says less
MAX_INTEGER = 2**31 - 1


class Section(BaseModel):
    """A part of a recipe: unknown keys are refused, values are frozen, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _bounded(cls, value: Any, info: ValidationInfo) -> Any:
        limit = 2**63 - 1 if info.field_name == "seed" else MAX_INTEGER
        if isinstance(value, int) and value > limit:
            raise PydanticCustomError("too_large", "Input should be less than or equal to {limit}", {"limit": limit})
        return value
