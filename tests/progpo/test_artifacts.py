"""Manifests notice damage; writes are whole or not at all."""

import json
import shutil
from pathlib import Path

import pytest

from progpo import artifacts
from progpo.errors import ProgpoError


@pytest.fixture
def chain(tmp_path: Path) -> tuple[Path, Path]:
    """A file made by one stage, and a folder made from it by another."""
    shard = tmp_path / "a" / "shard.parquet"
    artifacts.write_text(shard, "rows")
    artifacts.write_manifest(shard, "rollout", {}, [shard])
    policy = tmp_path / "b" / "policy"
    with artifacts.atomic_folder(policy) as place:
        (place / "weights").write_text("w")
        metrics = policy.parent / "metrics.json"
        artifacts.write_json(metrics, {"loss": 1.0})
        artifacts.write_manifest(place, "update", {"clip": 0.2}, [place / "weights", metrics], [shard], at=policy)
    return shard, policy


def test_undamaged(chain: tuple[Path, Path], tmp_path: Path) -> None:
    shard, policy = chain
    assert artifacts.verify(tmp_path) == ([], [])
    assert artifacts.check(policy).stage == "update"
    assert artifacts.check(policy / "manifest.json").settings == {"clip": 0.2}
    assert list(artifacts.read_manifest(policy).inputs) == ["../../a/shard.parquet.manifest.json"]
    assert list(artifacts.read_manifest(policy).files) == ["weights", "../metrics.json"] or list(
        artifacts.read_manifest(policy).files
    ) == ["../metrics.json", "weights"]
    assert artifacts.check(shard).stage == "rollout"


def test_edited_file(chain: tuple[Path, Path], tmp_path: Path) -> None:
    _, policy = chain
    (policy / "weights").write_text("x")
    with pytest.raises(
        ProgpoError, match=r"weights: changed.*\nremedy: snakemake .* --forcerun .*policy.manifest\.json$"
    ):
        artifacts.check(policy)
    assert [len(lines) for lines in artifacts.verify(tmp_path)] == [1, 0]


def test_deleted_file(chain: tuple[Path, Path], tmp_path: Path) -> None:
    shard, policy = chain
    shard.unlink()
    with pytest.raises(ProgpoError, match="missing"):
        artifacts.check(shard)
    (policy.parent / "metrics.json").unlink()
    assert [line.rsplit(" ", 1)[-1] for line in artifacts.verify(tmp_path)[0]] == ["missing", "missing"]


def test_remade_input_shows_downstream(chain: tuple[Path, Path], tmp_path: Path) -> None:
    shard, _ = chain
    artifacts.write_text(shard, "other rows")
    artifacts.write_manifest(shard, "rollout", {}, [shard])
    damaged, (found,) = artifacts.verify(tmp_path)
    assert damaged == []
    assert "policy/manifest.json: made from another" in found


def test_deleted_intermediate_shows(chain: tuple[Path, Path], tmp_path: Path) -> None:
    shard, _ = chain
    shard.unlink()
    artifacts.manifest_path(shard).unlink()
    (found,), _ = artifacts.verify(tmp_path)
    assert "its input" in found
    assert "missing" in found


def test_manifest_that_is_no_manifest(chain: tuple[Path, Path], tmp_path: Path) -> None:
    shard, policy = chain
    artifacts.manifest_path(shard).write_text("{")
    with pytest.raises(ProgpoError, match="not a readable manifest"):
        artifacts.check(shard)
    data = json.loads((policy / "manifest.json").read_text())
    (policy / "manifest.json").write_text(json.dumps({**data, "format": 99}))
    with pytest.raises(ProgpoError, match="format 99"):
        artifacts.check(policy)


def test_file_without_manifest(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert artifacts.check(file, strict=False) is None
    with pytest.raises(ProgpoError, match="missing"):
        artifacts.check(file, strict=True)
    with pytest.raises(ProgpoError, match="no such file"):
        artifacts.check(tmp_path / "nothing", strict=False)


def test_one_file_of_an_artifact(tmp_path: Path) -> None:
    main, beside = tmp_path / "data", tmp_path / "metrics.json"
    for path in (main, beside):
        path.write_text("{}")
    with pytest.raises(ProgpoError, match=r"data\.manifest\.json: missing"):
        artifacts.check_file(beside, main)
    artifacts.check_file(beside, main, strict=False)
    artifacts.write_manifest(main, "stage", {}, [main, beside])
    main.write_text("other")
    artifacts.check_file(beside, main)
    with pytest.raises(ProgpoError, match="data: changed since `progpo stage` wrote it"):
        artifacts.check_file(main, main, strict=False)
    beside.unlink()
    with pytest.raises(ProgpoError, match=r"metrics\.json: missing"):
        artifacts.check_file(beside, main)
    (tmp_path / "more").write_text("")
    with pytest.raises(ProgpoError, match=r"more: not listed in .*\n.*--forcerun"):
        artifacts.check_file(tmp_path / "more", main)
    with pytest.raises(ProgpoError, match="none: no such file"):
        artifacts.check_file(tmp_path / "none", tmp_path / "none", strict=False)


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    artifacts.write_text(path, "old")

    def interrupted() -> None:
        with artifacts.atomic(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_failed_folder_leaves_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    with artifacts.atomic_folder(folder) as place:
        (place / "weights").write_text("old")
        artifacts.write_manifest(place, "update", {}, [place / "weights"])

    def interrupted() -> None:
        with artifacts.atomic_folder(folder) as place:
            (place / "weights").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (folder / "weights").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["policy"]


def test_killed_writers_leftovers_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    (tmp_path / "policy.123.partial").mkdir()
    (tmp_path / "policy.7.partial").write_text("")
    (tmp_path / "policy2.7.partial").write_text("")
    artifacts.clean_partial(path)
    assert [file.name for file in tmp_path.iterdir()] == ["policy2.7.partial"]


def test_verify_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match="no artifact"):
        artifacts.verify(tmp_path)
    with pytest.raises(ProgpoError, match="no such folder"):
        artifacts.verify(tmp_path / "nothing")


def test_a_folder_that_no_stage_made_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("years")
    with pytest.raises(ProgpoError, match="would be lost"):
        artifacts.guard([], folder=home)
    with pytest.raises(ProgpoError, match="would be lost"), artifacts.atomic_folder(home):
        pass
    assert (home / "thesis.txt").read_text() == "years"


def test_a_copied_policy_is_whole_without_the_metrics_beside_it(chain: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(chain[1], tmp_path / "elsewhere" / "copy")
    assert artifacts.check(tmp_path / "elsewhere" / "copy").stage == "update"


def test_outputs_are_refused_before_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    made = tmp_path / "policy"
    for outputs, inputs, folder, words in [
        ([tmp_path / "a", tmp_path / "a"], [], None, "another output"),
        ([tmp_path / "folder" / ".." / "file"], [tmp_path / "file"], None, "is an input"),
        ([tmp_path / "folder"], [], None, "is a folder"),
        ([tmp_path / "file" / "a"], [], None, "is a file, not a folder"),
        ([], [], tmp_path / "file", "name a folder"),
        ([made / "metrics.json"], [], made, "made anew"),
        ([made / "metrics.json"], [], made / "manifest.json", "made anew"),
        ([], [made], made, "is an input"),
    ]:
        with pytest.raises(ProgpoError, match=words):
            artifacts.guard(outputs, inputs, folder)
    artifacts.guard(
        [tmp_path / "new" / "deep" / "a"], [tmp_path / "file"], tmp_path / "new" / "policy" / "manifest.json"
    )
