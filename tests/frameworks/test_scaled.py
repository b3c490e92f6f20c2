"""An update that a gradient scaler skips is void, and its samples are not consumed by any other."""

from pathlib import Path

import pytest
from launching import HERE, attempts_of, events, launch, used

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize(("kind", "last"), [("by_hand", 4), ("by_lightning", 5)])
def test_a_skipped_update_is_void(kind: str, last: int, tmp_path: Path) -> None:
    """By hand its number is used again, Lightning counts it; the next is committed either way."""
    ran = launch(1, HERE / "scaled.py", kind, tmp_path)

    assert 0 == ran.returncode, ran.stderr[-3000:]

    (attempt,) = attempts_of(tmp_path)
    ended = {one: events(tmp_path, attempt, one) for one in ("commit", "void")}
    batches = used(tmp_path, attempt)[0]

    assert [3] == [one["step"] for one in ended["void"]]
    assert last == max(one["step"] for one in ended["commit"])
    assert [2] * 4 == [one["samples"] for one in ended["commit"]]
    assert list(range(10)) == [one for batch in batches for one in batch["sample_id"]]
