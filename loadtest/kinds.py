"""Values that say their kind: the class of a table that a `kind` names reads the rest. Pure."""

from collections.abc import Mapping

from pydantic import BaseModel, BeforeValidator


def of_kind(table: Mapping[str, type[BaseModel]]) -> BeforeValidator:
    """Makes a table of parameters an instance of its kind; an instance stays what it is."""

    def made(value: object) -> object:
        if not isinstance(value, dict):
            return value
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in table:
            raise ValueError(f"kind: is {kind!r}; there are {', '.join(sorted(table))}")
        return table[kind].model_validate(value)

    return BeforeValidator(made)


def changed(parameters: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """A table among the changes replaces what was there when it says its kind, and changes parts of
    it when it does not."""
    result = dict(parameters)
    for key, change in changes.items():
        before = result.get(key)
        if isinstance(change, Mapping) and isinstance(before, Mapping) and "kind" not in change:
            result[key] = changed(before, change)
        else:
            result[key] = change
    return result
