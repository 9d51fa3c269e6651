from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data():
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real measurements not found")
    return folder
