"""The figures of a report, as SVG and PNG files.

Arms differ by colour (Okabe and Ito's palette, told apart by the colour-blind), by marker and by line style, so that
they can be told apart in grey too. The same content gives the same bytes: no date, and ids by a fixed salt.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from progpo.artifacts import atomic
from progpo.report.captions import CAPTIONS
from progpo.report.collect import Content
from progpo.results import WARMUP

#: Black, which the palette also has, is for text; the warm-up, which all arms begin as, is grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#6b6b6b"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
WIDTH = 8.0
STYLE = {
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.hashsalt": "progpo",
    "savefig.dpi": 160,
}
#: Column of the curves, what its axis says, and the factor from the one to the other.
Panel = tuple[str, str, float]
LEARNING: Sequence[Panel] = (
    ("success", "success of sampled trajectories, %", 100),
    ("validation", "success in validation, %", 100),
)
GROUPS: Sequence[Panel] = (
    ("failed_fraction", "all-failed groups, %", 100),
    ("triggered_fraction", "groups with progress applied, %", 100),
    ("no_signal_fraction", "groups without signal, %", 100),
)
EXPLORATION: Sequence[Panel] = (
    ("first_visit_rate", "coverage: first visits, % of steps", 100),
    ("anchor_size", "size of anchor groups, steps", 1),
    ("valid_rate", "valid actions, % of steps", 100),
    ("steps", "length of trajectories, steps", 1),
    ("cut_prompts", "prompts that left out steps, %", 100),
)
UPDATE: Sequence[Panel] = (
    ("entropy", "entropy, nats a token", 1),
    ("kl", "KL to the warm-up, nats a token", 1),
    ("policy_kl", "KL to the sampling policy, nats", 1),
    ("clip_fraction", "clipped tokens, %", 100),
    ("gradient_norm", "gradient norm, before clipping", 1),
    ("ratio", "importance ratio, mean", 1),
)


@dataclass(frozen=True)
class Look:
    """How an arm is drawn."""

    colour: str
    marker: str
    line: str


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw the figures that `progpo.report.captions.CAPTIONS` names; return their files, an SVG and a PNG each."""
    written = []
    with matplotlib.rc_context(STYLE):
        for name in CAPTIONS:
            figure = DRAWN[name](content)
            # The layout once for both files: it takes as long as the drawing.
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            for kind in ("svg", "png"):
                written.append(folder / f"{name}.{kind}")
                # Without the date, and without the name of the program, which holds its version.
                nothing = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
                with atomic(written[-1]) as temporary:
                    figure.savefig(temporary, format=kind, metadata=nothing)
    return written


def looks(arms: Sequence[str]) -> dict[str, Look]:
    """Return how each arm is drawn: the first ones all differ in colour, marker and line, and any two in something."""
    trained = [arm for arm in arms if arm != WARMUP]
    return {
        WARMUP: Look(GREY, "x", ":"),
        **{
            arm: Look(PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)], LINES[place % len(LINES)])
            for place, arm in enumerate(trained)
        },
    }


def _success(content: Content) -> Figure:
    """Success by arm and split: pooled over seeds with its interval, and each seed."""
    rows = [row for row in content.results if row["task_type"] == "all"]
    splits = list(dict.fromkeys(row["split"] for row in rows))
    figure = Figure(figsize=(WIDTH, 1.0 + 0.36 * len(content.arms)))
    panels = figure.subplots(1, len(splits), sharey=True, sharex=True, squeeze=False)
    look = looks(content.arms)
    for axes, split in zip(panels[0], splits, strict=True):
        by_arm = {row["arm"]: row for row in rows if row["split"] == split}
        for place, arm in enumerate(content.arms):
            if arm not in by_arm:
                continue
            _interval(axes, by_arm[arm], place, look[arm])
            seeds = list(_by_seed(content, arm, split))
            axes.plot(seeds, [place + 0.25] * len(seeds), "|", color=look[arm].colour, markersize=6, linewidth=0)
        axes.set(title=split, xlabel="success, %")
        _arms_axis(axes, content.arms)
        axes.grid(visible=False, axis="y")
    _from_zero(panels[0])
    return figure


def _by_seed(content: Content, arm: str, split: str) -> Iterator[float]:
    for (name, _), (_, summary) in sorted(content.found.evaluations.items(), key=lambda item: item[0]):
        if name == arm and split in summary["splits"]:
            part = summary["splits"][split]
            yield 100 * part["successes"] / part["episodes"]


def _interval(axes: Axes, row: Mapping[str, Any], place: float, look: Look) -> None:
    rate = 100 * row["success"]
    spread = [[max(0.0, rate - 100 * row["low"])], [max(0.0, 100 * row["high"] - rate)]]
    axes.errorbar(rate, place, xerr=spread, fmt=look.marker, color=look.colour, capsize=2.5, linewidth=1.3)


def _arms_axis(axes: Axes, arms: Sequence[str]) -> None:
    axes.set_yticks(range(len(arms)), arms)
    axes.set_ylim(len(arms) - 0.4, -0.6)


def _from_zero(panels: Sequence[Axes]) -> None:
    """Let the axes, which share their limits, begin just left of 0, so that marks at 0 are seen whole."""
    most = max(axes.get_xlim()[1] for axes in panels)
    for axes in panels:
        axes.set_xlim(-0.02 * most, most)
        axes.tick_params(axis="x", labelbottom=True)


def _types(content: Content) -> Figure:
    """Success by task type, split and arm, with intervals."""
    rows = [row for row in content.results if row["task_type"] != "all"]
    splits = list(dict.fromkeys(row["split"] for row in content.results))
    kinds = list(dict.fromkeys(row["task_type"] for row in rows))
    figure = Figure(figsize=(WIDTH, 1.1 + max(1, len(kinds)) * (0.2 + 0.15 * len(content.arms))))
    panels = figure.subplots(1, len(splits), sharey=True, sharex=True, squeeze=False)
    look = looks(content.arms)
    for axes, split in zip(panels[0], splits, strict=True):
        here = {(row["arm"], row["task_type"]): row for row in rows if row["split"] == split}
        for number, arm in enumerate(content.arms):
            shift = (number - (len(content.arms) - 1) / 2) * 0.75 / len(content.arms)
            for place, kind in enumerate(kinds):
                if (arm, kind) in here:
                    _interval(axes, here[arm, kind], place + shift, look[arm])
        for edge in range(1, len(kinds)):
            axes.axhline(edge - 0.5, color="#bbbbbb", linewidth=0.6)
        axes.set(title=split, xlabel="success, %")
        axes.set_yticks(range(len(kinds)), [kind.replace("_", " ") for kind in kinds])
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
    _from_zero(panels[0])
    legend(figure, content.arms, look, lines=False)
    return figure


def _curves(panels: Sequence[Panel], columns: int) -> Callable[[Content], Figure]:
    """Return a drawer of curves over iterations, `columns` panels a row; panels without any value are left out."""

    def drawn(content: Content) -> Figure:
        rows = content.curves
        shown = [panel for panel in panels if any(row[panel[0]] is not None for row in rows)] or [panels[0]]
        width = min(columns, len(shown))
        height = -(-len(shown) // width)
        figure = Figure(figsize=(WIDTH, 0.5 + 2.3 * height))
        grid = figure.subplots(height, width, squeeze=False)
        arms = [arm for arm in content.arms if arm != WARMUP]
        look = looks(content.arms)
        for axes, (column, label, scale) in zip(grid.flat, shown, strict=False):
            for arm in arms:
                _curve(axes, content, arm, column, scale, look[arm])
            axes.set(title=label, xlabel="iteration")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
            if label.endswith(("%", "% of steps")):
                axes.set_ylim(bottom=0)
        for axes in list(grid.flat)[len(shown) :]:
            axes.set_visible(False)
        legend(figure, arms, look)
        return figure

    return drawn


def _curve(axes: Axes, content: Content, arm: str, column: str, scale: float, look: Look) -> None:
    """Draw an arm's mean over seeds, and as a band its least to its most."""
    values: dict[int, list[float]] = {}
    for row in content.curves:
        # All arms begin with the warm-up's validation.
        if row[column] is not None and row["arm"] in (arm, WARMUP):
            values.setdefault(row["iteration"], []).append(scale * row[column])
    if not values:
        return
    iterations = sorted(values)
    means = [fmean(values[number]) for number in iterations]
    every = max(1, len(means) // 12)
    axes.plot(
        iterations,
        means,
        color=look.colour,
        marker=look.marker,
        linestyle=look.line,
        markevery=every,
        clip_on=False,
        zorder=3,
    )
    if any(len(of_seeds) > 1 for of_seeds in values.values()):
        least, most = ([extreme(values[number]) for number in iterations] for extreme in (min, max))
        axes.fill_between(iterations, least, most, color=look.colour, alpha=0.15, linewidth=0)


def legend(figure: Figure, arms: Sequence[str], look: Mapping[str, Look], lines: bool = True) -> None:
    """Put the arms' legend above a figure, in as many columns as their names leave room for."""
    # In ems: the line, and the space around it and the name; a letter is a little over half as wide as high.
    widest = 6 + 0.62 * max(map(len, arms), default=0)
    room = int(WIDTH * 72 / STYLE["font.size"] / widest)
    handles = [
        Line2D(
            [],
            [],
            color=look[arm].colour,
            marker=look[arm].marker,
            linestyle=look[arm].line if lines else "none",
            label=arm,
        )
        for arm in arms
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=max(1, min(len(arms), 6, room)), handlelength=3)


def _time(content: Content) -> Figure:
    """Time of all jobs of each stage, and the most memory of one."""
    rows = content.usage
    stages = [row["stage"] for row in rows]
    figure = Figure(figsize=(WIDTH, 1.3 + 0.38 * max(1, len(stages))))
    left, right = figure.subplots(1, 2, sharey=True)
    places = range(len(stages))
    minutes = {name: [row[name] / 60 for row in rows] for name in ("seconds", "cpu_seconds")}
    left.barh([place - 0.19 for place in places], minutes["seconds"], 0.36, color=PALETTE[0], label="elapsed")
    left.barh(
        [place + 0.19 for place in places],
        minutes["cpu_seconds"],
        0.36,
        color="white",
        edgecolor=PALETTE[1],
        hatch="////",
        label="of processors",
    )
    left.set(title="time, minutes over all jobs")
    left.legend(loc="best")
    memory = [row["memory"] or 0.0 for row in rows]
    right.barh(places, memory, 0.5, color=PALETTE[2])
    right.set(title="memory, GiB at most in a job")
    for axes in (left, right):
        axes.set_yticks(places, stages)
        axes.set_ylim(max(1, len(stages)) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
    return figure


DRAWN: Mapping[str, Callable[[Content], Figure]] = {
    "success": _success,
    "types": _types,
    "learning": _curves(LEARNING, 2),
    "groups": _curves(GROUPS, 3),
    "exploration": _curves(EXPLORATION, 2),
    "update": _curves(UPDATE, 3),
    "time": _time,
}
