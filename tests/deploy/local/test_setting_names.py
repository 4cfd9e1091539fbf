from deploy.local.plan import ROLES
from deploy.local.setting_names import setting_names


def test_every_role_has_its_own_settings_and_those_of_every_process() -> None:
    names = setting_names()
    assert set(names) == set(ROLES)
    assert all("log_level" in of_role for of_role in names.values())
    assert "kv_pool_bytes" in names["decode"]
    assert "kv_pool_bytes" not in names["kvstore"]
