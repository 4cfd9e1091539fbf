from pathlib import Path

from deploy.local import machine


def fake_machine(folder: Path, **cgroup: str) -> dict[str, Path]:
    (folder / "meminfo").write_text(
        "MemTotal:       2000 kB\nMemFree:  10 kB\nMemAvailable:    1000 kB\n"
    )
    for name, text in cgroup.items():
        (folder / f"memory.{name}").write_text(f"{text}\n")
    return {"proc": folder, "cgroup": folder}


def test_memory_is_what_the_kernel_calls_available(tmp_path: Path) -> None:
    assert machine.available_memory(**fake_machine(tmp_path)) == 1000 * 1024


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    folders = fake_machine(tmp_path, max="500000", current="100000")
    assert machine.available_memory(**folders) == 400_000


def test_a_container_without_limit_is_no_limit(tmp_path: Path) -> None:
    folders = fake_machine(tmp_path, max="max", current="100000")
    assert machine.available_memory(**folders) == 1000 * 1024


def test_disk_is_asked_where_a_folder_will_be(tmp_path: Path) -> None:
    assert machine.free_disk(tmp_path / "not" / "yet") > 0


def test_there_is_a_core() -> None:
    assert machine.cores() >= 1
