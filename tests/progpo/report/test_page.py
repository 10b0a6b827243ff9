"""The page holds all it shows, asks nothing of the network, lets no text be markup; figures are the same each time."""

import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

from progpo.artifacts import damage, read_manifest, write_manifest
from progpo.report import figures
from progpo.report.captions import CAPTIONS
from progpo.report.collect import root_of, usage
from progpo.report.page import render
from progpo.results import WARMUP
from progpo.settings.experiment import ReportStage
from progpo.stages import report
from tests.progpo.stages.test_report import evaluation, iteration, update

ROOT = Path(__file__).parents[3]
MARKUP = "<script>alert('x')</script>"
SETTINGS = ReportStage(experiment="a<b>&c", arms=("grpo", "progpo"), seeds=(0, 1), iterations=2)
BENCHMARK = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def benchmark(root: Path, place: str, seconds: float, memory: str, cpu: str) -> None:
    path = root / "benchmarks" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{BENCHMARK}{seconds}\t0:00:00\t{memory}\t0\t0\t0\t0\t0\t0\t{cpu}\n")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete experiment of two seeds, two arms and two iterations."""
    root = tmp_path_factory.mktemp("artifacts") / "experiment"
    alarm = {"alarm": "entropy", "value": 0.01, "limit": 0.1, "message": MARKUP}
    for seed in (0, 1):
        evaluation(root, seed, WARMUP, 1 + seed)
        for arm in ("grpo", "progpo"):
            evaluation(root, seed, f"{arm}/iteration-002", 3)
            for number in (1, 2):
                iteration(root, seed, arm, number, 0.1 * number + 0.05 * seed)
                update(root, seed, arm, number, 0.5, [alarm] if number == 2 else [])
    table = root / "seed-0/progpo/iteration-001/advantages.parquet"
    recipe = {"base": "gigpo", "progress": {"weight": 0.3}, "note": MARKUP}
    write_manifest(table, "advantages", recipe, [table, table.with_name("advantages.json")])
    benchmark(root, "seed-0/shared/iteration-001/shard-00.tsv", 30, "2048.00", "20.5")
    benchmark(root, "seed-0/grpo/iteration-002/shard-00.tsv", 60, "1024.00", "9.5")
    benchmark(root, "seed-1/warmup.tsv", 0.1, "NA", "-")
    # Of no seed, arm or iteration that the report is of; and the report's own.
    for place in ("seed-7/warmup.tsv", "seed-0/rloo/iteration-001/update.tsv", "seed-0/grpo/iteration-009/update.tsv"):
        benchmark(root, place, 1000, "9000", "900")
    benchmark(root, "report.tsv", 1000, "9000", "900")
    return root


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    report.run(SETTINGS, [root], root / "report", strict=True)
    return root / "report"


class Reader(HTMLParser):
    """Takes down elements, what they refer to, and their text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_holds_what_it_shows(folder: Path) -> None:
    source = (folder / "report.html").read_text(encoding="utf-8")
    page = Reader(source)
    assert page.ids == [*list(CAPTIONS)[:-1], "alarms", "time", "settings"]
    assert page.elements.count("img") == page.elements.count("figure") == len(CAPTIONS)
    for title, caption in CAPTIONS.values():
        assert title in page.text
        assert caption in page.text
    assert "30.0 [14.5, 51.9]" in page.text  # 3 of 10, twice
    assert "weight: 0.3" in page.text
    assert all(ref.startswith(("data:image/svg+xml;base64,", "#")) for ref in page.references)
    assert {ref[1:] for ref in page.references if ref.startswith("#")} == set(page.ids)
    assert not re.search(r"https?:|@import|url\(", source)


def test_texts_are_no_markup(folder: Path) -> None:
    source = (folder / "report.html").read_text(encoding="utf-8")
    page = Reader(source)
    assert "script" not in page.elements
    assert "b" not in page.elements
    assert page.text.count(MARKUP) >= 3  # two arms' alarms (two seeds each), and the recipe
    assert "a<b>&c" in page.text
    assert "default-src 'none'; img-src data:;" in source


def test_files_and_manifests(folder: Path) -> None:
    names = {f"figures/{name}.{kind}" for name in CAPTIONS for kind in ("svg", "png")}
    manifest = read_manifest(folder / "report.html")
    assert set(manifest.files) == {"report.html", *names}
    assert not damage(folder / "report.html")
    # What tells the time is not among the files that are the same each time.
    assert set(read_manifest(folder / "results.md").files) == {"results.md", "results.txt", "results.csv", "curves.csv"}
    assert (folder / "figures/success.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "figures/success.svg").read_text()


def test_figures_are_the_same_each_time(
    root: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "CAPTIONS", ("success", "learning"))
    content, _ = report.read(SETTINGS, [root])
    for path in figures.draw(content, tmp_path):
        assert path.read_bytes() == (folder / "figures" / path.name).read_bytes()
    assert render(content, folder / "figures") == (folder / "report.html").read_text(encoding="utf-8")


def test_time_and_memory_are_of_the_jobs_meant(root: Path) -> None:
    warmup, rollout = usage(root, SETTINGS)
    assert warmup == {
        "stage": "warmup",
        "jobs": 1,
        "seconds": 0.1,
        "cpu_seconds": 0,
        "longest": 0.1,
        "memory": None,
    }
    assert rollout == {
        "stage": "rollout",
        "jobs": 2,
        "seconds": 90,
        "cpu_seconds": 30,
        "longest": 60,
        "memory": 2,
    }


def test_arms_differ_in_more_than_colour() -> None:
    arms = [f"arm-{number}" for number in range(12)]
    looks = figures.looks([WARMUP, *arms])
    assert len(set(looks.values())) == 13
    # Without colour: marker and line.
    assert len({(look.marker, look.line) for look in looks.values()}) == 13


@pytest.mark.parametrize("name", ["grpo", "progpo_gigpo_without_penalty", "a" * 90])
def test_the_legend_stays_within_the_figure(name: str) -> None:
    arms = [f"{name}_{number}" for number in range(9)]
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(figures.WIDTH, 3))
        figures.legend(figure, arms, figures.looks(arms))
        figure.draw_without_rendering()
        assert figure.legends[0].get_window_extent().x1 <= figure.bbox.x1


def test_the_experiment_s_folder_is_found() -> None:
    assert root_of(Path("/a/exp/seed-0/grpo/iteration-001/update.json")) == Path("/a/exp")
    assert root_of(Path("/a/exp")) == Path("/a/exp")


def test_the_workflow_s_captions_are_the_page_s() -> None:
    for name, (_, caption) in CAPTIONS.items():
        assert " ".join((ROOT / f"workflow/report/{name}.rst").read_text().split()) == caption
