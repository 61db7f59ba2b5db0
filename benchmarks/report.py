"""The report of `peers.py`: one page with plots that needs nothing else, and the summary as text."""

from __future__ import annotations

import html
import math
from typing import Any

BASE = "Entasis"
METRICS = {
    "bytes": "bytes",
    "encode_cpu": "encode, CPU",
    "decode_offsets_cpu": "decode to offsets, CPU",
    "decode_views_cpu": "decode to views, CPU",
    "take_cpu": "take, CPU",
    "take_wall": "take, time",
}
COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b", "#ff9da6", "#79706e"]


def compare(tables: list[dict[str, Any]], peer: str, metric: str) -> dict[str, float] | None:
    """Entasis over the peer, on the tables that both hold: in total, as geometric mean, and how often it is below 1."""
    pairs = []
    for table in tables:
        ours, theirs = (table["peers"].get(name, {}).get(metric) for name in (BASE, peer))
        if ours and theirs:
            pairs.append((ours, theirs))
    if not pairs:
        return None
    ratios = [ours / theirs for ours, theirs in pairs]
    return {
        "tables": len(pairs),
        "total": sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs),
        "mean": math.exp(sum(map(math.log, ratios)) / len(ratios)),
        "below": sum(ratio < 1 for ratio in ratios),
    }


def rows_of(measured: dict[str, Any]) -> list[list[str]]:
    rows = []
    for peer in measured["settings"]:
        if peer == BASE:
            continue
        for metric, words in METRICS.items():
            found = compare(measured["tables"], peer, metric)
            if found:
                below = f"{found['below']} of {found['tables']}"
                rows.append([peer, words, f"{found['total']:.3f}", f"{found['mean']:.3f}", below])
    return rows


HEADS = ["the other", "what", "in total", "geometric mean", "tables below 1"]


def summary(measured: dict[str, Any]) -> str:
    """Entasis over every peer, as text."""
    table = [HEADS, *rows_of(measured)]
    widths = [max(len(row[index]) for row in table) for index in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join(["", "Entasis over the other (below 1 is better)", *lines])


def page(measured: dict[str, Any]) -> str:
    """The whole page."""
    parts = [
        "<h1>Entasis beside its peers</h1>",
        f"<p>{escape(machine_words(measured))}</p>",
        "<h2>Entasis over the other</h2><p>Below 1 is better. Tables count that both hold.</p>",
        html_table(HEADS, rows_of(measured)),
        "<h2>Size against decode speed</h2>",
        "<p>All tables that every one of these holds, together; strings with offsets. Up and left is better.</p>",
        speed_plot(measured),
        "<h2>Columns</h2><p>Each point is a column alone: bytes as Entasis, and as the other. Below the line Entasis "
        "is smaller.</p>",
        column_plots(measured),
        "<h2>Settings</h2>",
        html_table(["peer", "settings"], [[peer, words] for peer, words in measured["settings"].items()]),
        missing_list(measured),
        "<h2>Tables</h2><p>Megabytes and CPU seconds: bytes · encode · decode to offsets · take.</p>",
        tables_of(measured),
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Entasis beside its peers</title>'
        f"<style>{STYLE}</style><body>{''.join(parts)}</body></html>"
    )


STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 12px 2px 0;text-align:left;vertical-align:top}"
    "th{border-bottom:1px solid #999}td{border-bottom:1px solid #eee;font-variant-numeric:tabular-nums}"
    "svg{max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#333}.error{color:#a33}"
)


def escape(text: Any) -> str:
    return html.escape(str(text))


def machine_words(measured: dict[str, Any]) -> str:
    machine = measured["machine"]
    versions = ", ".join(f"{package} {version}" for package, version in measured["versions"].items())
    return (
        f"{len(measured['tables'])} tables, one thread, best of {measured['rounds']}. {machine['processor']}, "
        f"{machine['cores']} cores, {machine['system']}, Python {machine['python']}; {versions}."
    )


def html_table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def missing_list(measured: dict[str, Any]) -> str:
    return "".join(f"<p>{escape(peer)} was left out: {escape(why)}</p>" for peer, why in measured["missing"].items())


def tables_of(measured: dict[str, Any]) -> str:
    peers = list(measured["settings"])

    def cell(found: dict[str, Any]) -> str:
        if "error" in found:
            return f'<td class="error" title="{escape(found["error"])}">not held</td>'
        times = [found["encode_cpu"], found["decode_offsets_cpu"], found.get("take_cpu", 0)]
        return f"<td>{found['bytes'] / 1e6:.3g} · {' · '.join(f'{seconds:.3g}' for seconds in times)}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in ["table", "rows", *peers])
    body = "".join(
        f"<tr><td>{escape(table['name'])}</td><td>{table['rows']:,}</td>"
        + "".join(cell(table["peers"][peer]) for peer in peers)
        + "</tr>"
        for table in measured["tables"]
    )
    return f'<div style="overflow-x:auto"><table><tr>{head}</tr>{body}</table></div>'


class Plot:
    """Points over two logarithmic axes."""

    def __init__(
        self, size: tuple[int, int], x: list[float], y: list[float], names: tuple[str, str], label_width: int = 0
    ):
        (self.width, self.height), self.parts = size, []
        self.right = self.width - 20 - label_width
        self.x_range, self.y_range = log_range(x), log_range(y)
        for values, place, vertical in ((self.x_range, self.x, False), (self.y_range, self.y, True)):
            for exponent in range(math.floor(values[0]), math.ceil(values[1]) + 1):
                for step in (1, 2, 5):
                    tick = step * 10.0**exponent
                    if values[0] <= math.log10(tick) <= values[1]:
                        self.tick(place(tick), short(tick), vertical)
        self.text(self.width / 2, self.height - 4, names[0], "middle")
        middle = self.height / 2
        self.text(12, middle, names[1], "middle", f' transform="rotate(-90 12 {middle})"')

    def x(self, value: float) -> float:
        low, high = self.x_range
        return 60 + (math.log10(value) - low) / (high - low) * (self.right - 60)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.height - 40 - (math.log10(value) - low) / (high - low) * (self.height - 60)

    def tick(self, at: float, words: str, vertical: bool) -> None:
        bottom = self.height - 40
        line = f"M60 {at:.1f}H{self.right}" if vertical else f"M{at:.1f} 20V{bottom}"
        self.parts.append(f'<path d="{line}" stroke="#eee"/>')
        if vertical:
            self.text(56, at + 4, words, "end")
        else:
            self.text(at, bottom + 16, words, "middle")

    def text(self, x: float, y: float, words: str, anchor: str = "start", more: str = "") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>')

    def point(self, x: float, y: float, colour: str, title: str, radius: float, label: str = "") -> None:
        at_x, at_y = self.x(x), self.y(y)
        self.parts.append(
            f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="{radius}" fill="{colour}" fill-opacity="0.7">'
            f"<title>{escape(title)}</title></circle>"
        )
        if label:
            self.text(at_x + radius + 3, at_y + 4, label)

    def svg(self) -> str:
        return f'<svg viewBox="0 0 {self.width} {self.height}" width="{self.width}">{"".join(self.parts)}</svg>'


def log_range(values: list[float]) -> tuple[float, float]:
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max((high - low) * 0.08, 0.05)
    return low - margin, high + margin


def short(value: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


def speed_plot(measured: dict[str, Any]) -> str:
    """Bytes of all tables against gigabytes of Arrow data decoded per CPU second."""
    counts = {
        peer: sum("bytes" in table["peers"][peer] for table in measured["tables"]) for peer in measured["settings"]
    }
    # Who holds few tables, as NumPy does, would leave few to everybody.
    taking_part = [peer for peer, count in counts.items() if count and count >= 0.5 * max(counts.values())]
    held = [table for table in measured["tables"] if all("bytes" in table["peers"][peer] for peer in taking_part)]
    if not held or not taking_part:
        return "<p>No table is held by all.</p>"
    arrow_bytes = sum(table["arrow_bytes"] for table in held)
    points = []
    for peer in taking_part:
        size = sum(table["peers"][peer]["bytes"] for table in held)
        seconds = sum(table["peers"][peer]["decode_offsets_cpu"] for table in held)
        points.append((size / 1e6, arrow_bytes / 1e9 / max(seconds, 1e-9), peer))
    names = (f"MB of {len(held)} tables", "GB of Arrow data per CPU second")
    plot = Plot((900, 460), [x for x, _, _ in points], [y for _, y, _ in points], names, label_width=110)
    for index, (x, y, peer) in enumerate(points):
        words = f"{peer}: {x:.1f} MB, {y:.2f} GB/s"
        plot.point(x, y, COLOURS[index % len(COLOURS)], words, 8 if peer == BASE else 6, peer)
    return plot.svg()


def column_plots(measured: dict[str, Any]) -> str:
    """A plot for every peer: each column's bytes, of Entasis over those of the peer."""
    plots = []
    for peer in measured["settings"]:
        pairs = [
            (column["peers"][peer]["bytes"], column["peers"][BASE]["bytes"], column)
            for column in measured["columns"]
            if peer != BASE and "bytes" in column["peers"].get(peer, {}) and "bytes" in column["peers"].get(BASE, {})
        ]
        if not pairs:
            continue
        both = [value for x, y, _ in pairs for value in (x, y)]
        plot = Plot((440, 400), both, both, (f"bytes, {peer}", "bytes, Entasis"))
        low, high = 10 ** plot.x_range[0], 10 ** plot.x_range[1]
        plot.parts.append(
            f'<path d="M{plot.x(low):.1f} {plot.y(low):.1f}L{plot.x(high):.1f} {plot.y(high):.1f}" stroke="#999"/>'
        )
        kinds = sorted({kind_of(column["type"]) for _, _, column in pairs})
        for x, y, column in pairs:
            colour = COLOURS[kinds.index(kind_of(column["type"])) % len(COLOURS)]
            plot.point(x, y, colour, f"{column['name']} ({column['type']}): {y:,} and {x:,} bytes", 4)
        for index, kind in enumerate(kinds):
            at = 30 + 15 * index
            plot.parts.append(f'<circle cx="76" cy="{at}" r="4" fill="{COLOURS[index % len(COLOURS)]}"/>')
            plot.text(84, at + 4, kind)
        plots.append(plot.svg())
    return "".join(plots) or "<p>No columns were measured alone.</p>"


def kind_of(data_type: str) -> str:
    for prefixes, kind in (
        (("int", "uint"), "integers"),
        (("float", "double", "halffloat"), "floats"),
        (("string", "binary", "large_"), "strings"),
        (("timestamp", "date", "time", "duration"), "times"),
        (("list", "struct", "fixed_size_list", "map"), "nested"),
        (("decimal",), "decimals"),
    ):
        if data_type.startswith(prefixes):
            return kind
    return "others"
