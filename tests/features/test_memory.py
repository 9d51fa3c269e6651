"""The memory that is left to a program."""

import subprocess
import sys

from toruscast import memory


def test_the_memory_that_is_left_is_the_least_of_all_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("3:cpu:/other\n0::/batch/job\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:   3000 kB\n")
    assert memory.available() == 3000 * 1024
    (tmp_path / "batch" / "job").mkdir(parents=True)
    told = {"max": "2000000", "current": "1500000", "stat": "anon 7\ninactive_file 100000"}
    for name, text in told.items():
        (tmp_path / "batch" / f"memory.{name}").write_text(f"{text}\n")
    assert memory.available() == 600_000
    (tmp_path / "batch" / "memory.current").write_text("2500000\n")
    assert memory.available() == 0
    (tmp_path / "batch" / "memory.max").write_text("max\n")
    assert memory.available() == 3000 * 1024


def test_groups_of_the_first_version_count(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("5:cpu,memory:/job\n")
    (tmp_path / "memory" / "job").mkdir(parents=True)
    told = {"limit_in_bytes": "9000", "usage_in_bytes": "4000", "stat": "total_inactive_file 5"}
    for name, text in told.items():
        (tmp_path / "memory" / "job" / f"memory.{name}").write_text(text)
    assert memory.available() == 5005


def test_a_limit_of_the_process_counts():
    words = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33)); "
    words += "from toruscast.memory import available; print(available())"
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert 0 < float(told.stdout) < 2**33
