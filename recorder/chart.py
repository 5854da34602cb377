# SPDX-License-Identifier: Apache-2.0
"""Draw a benchmark as SVG with matplotlib: text stays text, and every color is one of the page's CSS properties."""

import io
import math
import re
from html import escape

from recorder.project import ROOT
from recorder.recording import Benchmark

# matplotlib wants real colors; each of these stands for a property of theme/assets/tokens.css and is replaced below.
STAND_INS = {f"pid-{i}": f"#0000f{i}" for i in range(8)} | {"ink": "#0001f0", "ink-muted": "#0001f1", "rule": "#0001f2"}
MARKERS = "osD^vPXh"
DASHES = ["-", "--", ":", "-."]


def draw(table: Benchmark) -> str:
    """The SVG of a benchmark; a band spans least and most."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": table.name,  # the same ids on every run
        "font.family": "sans-serif",
        "font.size": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": STAND_INS["rule"],
        "axes.labelcolor": STAND_INS["ink"],
        "xtick.color": STAND_INS["ink-muted"],
        "ytick.color": STAND_INS["ink-muted"],
        "grid.color": STAND_INS["rule"],
        "text.color": STAND_INS["ink"],
    }
    with matplotlib.rc_context(style):
        beside = len(table.lines) > 5  # so long a legend would cover lines: it gets room of its own
        figure, axes = plt.subplots(figsize=(6.4, 4.8 if beside else 3.9), layout="constrained")
        rows = table.readings()
        x = [row.x[0] for row in rows]
        if isinstance(x[0], str):  # names, one beside the other
            axes.set_xticks(range(len(x)), x, rotation=30, ha="right")
            x = list(range(len(x)))
        for i, (line, label) in enumerate(table.lines.items()):
            color = STAND_INS[f"pid-{i}"]
            y = [row.y[line] for row in rows]
            axes.plot(x, [v[0] for v in y], label=label, color=color, ls=DASHES[i % 4], marker=MARKERS[i], ms=4, lw=1.6)
            if all(len(v) == 3 for v in y):
                axes.fill_between(x, [v[1] for v in y], [v[2] for v in y], color=color, alpha=0.15, lw=0)
        axes.set_xlabel(table.xlabel)
        axes.set_ylabel(table.ylabel)
        if table.x_log:
            axes.set_xscale("log", base=2)
            axes.set_xticks(x[:: -(-len(x) // 9)])  # sizes that were measured, at most nine of them
            axes.xaxis.set_minor_locator(plt.NullLocator())
        values = [row.y[line][0] for row in rows for line in table.lines]
        if table.y_log and max(values) >= 10 * min(values):  # less than one power of ten has no room for ticks
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(_power_of_ten if axes.get_ylim()[0] < 1e-4 else "{x:g}")
        else:
            axes.set_ylim(bottom=0)
        axes.grid(axis="y", lw=0.8)
        if beside:
            figure.legend(frameon=False, loc="outside upper center", ncols=2)
        else:
            axes.legend(frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    return _with_tokens(
        buffer.getvalue(), f"{table.ylabel} by {table.xlabel}: {', '.join(table.lines.values())}"
    )


def _power_of_ten(value: float, position: int) -> str:
    """10⁻⁵: errors go through many powers, and the words for most would be long."""
    exponent = round(math.log10(value))
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def tokens() -> dict[str, str]:
    """The properties of tokens.css with their values in the light scheme."""
    css = (ROOT / "theme" / "assets" / "tokens.css").read_text("utf-8")
    light = css[: css.index("[data-md-color-scheme")]
    return dict(re.findall(r"--([\w-]+):\s*([^;]+);", light))


def _with_tokens(svg: str, label: str) -> str:
    values = tokens()
    for name, color in STAND_INS.items():
        svg = re.sub(re.escape(color), f"var(--{name}, {values[name]})", svg, flags=re.I)
    svg = re.sub(r"(font-family: |font: [^;\"']*)'[^;\"]*", r"\1var(--sans, sans-serif)", svg)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # Pictures of one page share its ids and its styles: keep no id that nothing refers to, and no style for everything.
    svg = re.sub(r'<g id="[^"]*">', "<g>", re.sub(r"<style.*?</style>", "", svg, flags=re.S))
    head = f'class="chart" role="img" aria-label="{escape(label)}" stroke-linejoin="round"'
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', head.replace("\\", r"\\"), svg, count=1)
