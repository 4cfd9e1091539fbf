"""Which settings each role has. The services are not imported here, so their names stand in a file
that `make docs` writes from their classes.
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter

from common.runtime.settings import ProcessSettings
from deploy.local.plan import RoleName

_FILE = Path(__file__).with_name("settings.json")
_NAMES: TypeAdapter[dict[RoleName, frozenset[str]]] = TypeAdapter(dict[RoleName, frozenset[str]])


def setting_names() -> Mapping[RoleName, frozenset[str]]:
    """By role, with those that every process has."""
    own = _NAMES.validate_json(_FILE.read_bytes())
    return {role: names | ProcessSettings.model_fields.keys() for role, names in own.items()}
