"""What is removed of an arm, and what stays readable."""

import os
from pathlib import Path

import pytest

from progpo import artifacts, pruning
from progpo.artifacts import write_json, write_manifest, write_text
from progpo.errors import ProgpoError
from progpo.pruning import in_words, removals, staying
from progpo.settings.keep import KeepSettings

FILES = {"model.safetensors": 1_000_000, "optimizer.safetensors": 2_000_000, "config.json": 10}


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    """Four iterations; the first one's shards are elsewhere."""
    folder = tmp_path / "artifacts" / "x" / "seed-0" / "a"
    for number in range(1, 5):
        add(folder, number)
    return folder


def add(arm: Path, number: int) -> None:
    home = arm / f"iteration-{number:03d}"
    if number > 1:
        for shard in range(2):
            file = home / f"shard-0{shard}.parquet"
            write_text(file, "x" * 100)
            write_manifest(file, "rollout", {}, [file])
    for name, size in FILES.items():
        write_text(home / "policy" / name, "x" * size)
    metrics = home / "update.json"
    write_json(metrics, {})
    write_manifest(home / "policy", "update", {}, [*(home / "policy" / name for name in FILES), metrics])


def there(arm: Path, pattern: str) -> list[int]:
    return sorted({int(path.relative_to(arm).parts[0][10:]) for path in arm.glob(f"iteration-*/{pattern}")})


def remove(arm: Path, keep: KeepSettings, iteration: int = 4, best: int | None = None, needed: tuple = ()) -> int:
    found = removals(arm, iteration, keep, staying(keep, iteration, best, needed))
    return sum(removal.apply() for removal in found)


@pytest.mark.parametrize(
    ("keep", "best", "policies", "optimizer", "shards"),
    [
        ({}, None, [1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4]),
        ({"optimizer": 1}, None, [1, 2, 3, 4], [4], [2, 3, 4]),
        ({"policies": 2}, None, [3, 4], [3, 4], [2, 3, 4]),
        ({"policies": 9, "optimizer": 2}, None, [1, 2, 3, 4], [3, 4], [2, 3, 4]),
        ({"policies": "best", "optimizer": 1}, 2, [2, 4], [4], [2, 3, 4]),
        ({"policies": "best"}, 4, [4], [4], [2, 3, 4]),
        ({"policies": "best"}, None, [4], [4], [2, 3, 4]),
        ({"rollouts": 1}, None, [1, 2, 3, 4], [1, 2, 3, 4], [4]),
        ({"rollouts": 0}, None, [1, 2, 3, 4], [1, 2, 3, 4], []),
    ],
)
def test_what_stays(
    arm: Path, keep: dict, best: int | None, policies: list[int], optimizer: list[int], shards: list[int]
) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in arm.rglob("*.json")}
    remove(arm, KeepSettings(**keep), best=best)
    assert there(arm, "policy/model.safetensors") == policies
    assert there(arm, "policy/optimizer.safetensors") == optimizer
    assert there(arm, "shard-*.parquet") == shards
    # Manifests and all that is small stay to the byte and to the time: that is what Snakemake and consumers look at.
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert artifacts.verify(arm) == ([], [])


def test_later_iterations_and_policies_that_are_needed_stay(arm: Path) -> None:
    keep = KeepSettings(policies=1)
    remove(arm, keep, iteration=3, needed=(2,))
    assert there(arm, "policy/model.safetensors") == [2, 3, 4]
    remove(arm, keep, iteration=3)
    assert there(arm, "policy/model.safetensors") == [3, 4]


def test_a_removal_that_was_cut_short_is_completed(arm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = KeepSettings(policies=1)
    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.name == "optimizer.safetensors":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(arm, keep)
    first = arm / "iteration-001" / "policy"
    assert sorted(path.name for path in first.glob("*.safetensors")) == ["optimizer.safetensors"]
    assert artifacts.verify(arm) == ([], [])
    assert pruning.removed(arm) == {first / "manifest.json": {"model.safetensors": 1_000_000}}
    assert remove(arm, keep) == 2_000_000 + 2 * 3_000_000
    assert remove(arm, keep) == 0
    assert in_words(pruning.removed(arm)) == "the weights of 3 policies, the optimiser state of 3 policies (9 MB)"


def test_what_was_removed_is_refused_with_the_remedy(arm: Path) -> None:
    remove(arm, KeepSettings(policies=2, optimizer=1, rollouts=0))
    policy = arm / "iteration-002" / "policy"
    with pytest.raises(ProgpoError, match=r"model\.safetensors: was removed by `keep` \(policies: 2\)") as caught:
        artifacts.check(policy)
    assert f"--forcerun {arm}/iteration-001/policy/manifest.json" in str(caught.value)
    # The weights of 3 are there, for whoever reads no more.
    third = arm / "iteration-003" / "policy" / "manifest.json"
    assert artifacts.check(third, unread=pruning.OPTIMIZER_FILES).stage == "update"
    with pytest.raises(ProgpoError, match=r"optimizer\.safetensors: was removed by `keep` \(optimizer: 1\)"):
        artifacts.check(third)
    with pytest.raises(ProgpoError, match=r"optimizer\.safetensors: was removed by `keep`"):
        artifacts.check_file(third.with_name("optimizer.safetensors"), third)
    artifacts.check_file(third.parent.parent / "update.json", third)
    with pytest.raises(ProgpoError, match=r"shard-00\.parquet: was removed by `keep` \(rollouts: 0\)"):
        artifacts.check(arm / "iteration-003" / "shard-00.parquet")


def test_a_removal_that_was_killed_while_it_noted_leaves_nothing(arm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = KeepSettings(policies=1)

    def killed(source: Path, target: Path) -> None:
        os._exit(9)

    # A process of its own, since an exception would tidy up.
    child = os.fork()
    if not child:
        try:
            monkeypatch.setattr(os, "replace", killed)
            remove(arm, keep)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert list(arm.rglob("*.partial"))
    assert remove(arm, keep) == 3 * 3_000_000
    assert not list(arm.rglob("*.partial"))


def test_damage_is_still_damage(arm: Path) -> None:
    remove(arm, KeepSettings(policies=1))
    (arm / "iteration-002/policy/config.json").unlink()
    (arm / "iteration-004/policy/model.safetensors").write_text("y")
    found, _ = artifacts.verify(arm)
    assert [line.rpartition(": ")[0].rpartition("/")[2] for line in found] == ["config.json", "model.safetensors"]
    # What is missing without having been removed is not noted as removed.
    (arm / "iteration-004/policy/model.safetensors").unlink()
    add(arm, 5)
    remove(arm, KeepSettings(policies=1), iteration=5)
    assert artifacts.pruned(arm / "iteration-004/policy").keys() == {"optimizer.safetensors"}


def test_what_is_made_anew_is_whole_again(arm: Path) -> None:
    remove(arm, KeepSettings(policies=1, rollouts=0))
    add(arm, 2)
    shard = arm / "iteration-002" / "shard-00.parquet"
    assert artifacts.pruned(shard) == artifacts.pruned(arm / "iteration-002" / "policy") == {}
    shard.unlink()
    assert artifacts.damage(shard) == [f"{shard}: missing"]


def test_a_note_that_cannot_be_read(arm: Path) -> None:
    (arm / "iteration-001/policy/pruned.json").write_text("[]")
    with pytest.raises(ProgpoError, match=r"pruned\.json: not a readable note"):
        artifacts.check(arm / "iteration-001/policy")
