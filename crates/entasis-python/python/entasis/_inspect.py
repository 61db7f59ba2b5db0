"""What is in a file, for people: as text, and in notebooks as a page with pictures."""

from __future__ import annotations

import html
from typing import Any, NamedTuple
from zlib import crc32

from ._entasis import EntasisFile, FileMetadata, describe_columns


class CascadeNode(NamedTuple):
    """A node of a cascade: its encoding, its values, the bytes of its own, and the nodes below it."""

    encoding: str
    rows: int
    size_bytes: int
    children: tuple[CascadeNode, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of the node and of all below it."""
        return self.size_bytes + sum(child.total_bytes for child in self.children)


class CascadeUse(NamedTuple):
    """A cascade, in how many blocks of a column it was chosen, and its tree over all these blocks."""

    blocks: int
    words: str
    tree: CascadeNode


class ColumnInspection(NamedTuple):
    """What a file holds of one column, without the columns below it."""

    path: str
    type: str
    rows: int
    size_bytes: int
    decoded_bytes: int
    blocks: int
    shared_parts: int
    bloom_bytes: int
    nulls: int
    cascades: tuple[CascadeUse, ...]

    @property
    def cascade_words(self) -> str:
        """The cascades in words, each with the number of its blocks if there are several."""
        if len(self.cascades) == 1:
            return self.cascades[0].words
        return ", ".join(f"{used.blocks} × {used.words}" for used in self.cascades)


class Inspection:
    """What is in a file: `columns`, `metadata`; as text when it is printed, as a page in notebooks."""

    def __init__(self, source: Any, arguments: dict[str, Any]):
        with EntasisFile(source, **arguments) as file:
            self.metadata: FileMetadata = file.metadata
        self.columns = tuple(map(_column, describe_columns(source, **arguments)))

    def __repr__(self) -> str:
        lines = [self._head()]
        cells = [["column", "type", *self._numbers(), "encoded as"]]
        for column in self.columns:
            cells.append([column.path, _type_words(column), *self._numbers(column), column.cascade_words])
        widths = [max(len(row[index]) for row in cells) for index in range(len(cells[0]) - 1)]
        for row in cells:
            left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
            right = [cell.rjust(width) for cell, width in zip(row[2:-1], widths[2:], strict=True)]
            lines.append("  ".join([*left, *right, row[-1]]).rstrip())
        return "\n".join(lines)

    def _numbers(self, column: ColumnInspection | None = None) -> list[str]:
        """Numbers of a column, or their headings; Bloom filters only where some column has any."""
        numbers = ["bytes", "ratio", "nulls", "Bloom filters"]
        if column is not None:
            numbers = [f"{column.size_bytes:,}", _ratio(column), f"{column.nulls:,}", f"{column.bloom_bytes:,}"]
        return numbers if any(column.bloom_bytes for column in self.columns) else numbers[:3]

    def _head(self) -> str:
        file = self.metadata
        counts = [(file.num_rows, "row"), (file.num_columns, "column"), (file.num_row_groups, "row group")]
        words = ", ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for count, what in counts)
        return f"{words}, {_bytes_words(file.size_bytes)}, written by {file.created_by}"

    def _repr_html_(self) -> str:
        largest = max((column.size_bytes for column in self.columns), default=1) or 1
        rows = "".join(_row(column, self._numbers(column), column.size_bytes / largest) for column in self.columns)
        headings = "".join(f"<th>{heading}</th>" for heading in self._numbers())
        return (
            f'<div class="entasis-inspect"><style>{_STYLE}</style><p>{html.escape(self._head())}</p><table><thead><tr>'
            f"<th>column</th><th>type</th>{headings}<th>encoded as</th></tr></thead>"
            f"<tbody>{rows}</tbody></table></div>"
        )


def _column(found: dict[str, Any]) -> ColumnInspection:
    cascades = tuple(CascadeUse(blocks, words, _node(tree)) for blocks, words, tree in found.pop("cascades"))
    return ColumnInspection(**found, cascades=cascades)


def _node(found: dict[str, Any]) -> CascadeNode:
    return CascadeNode(found["encoding"], found["rows"], found["size_bytes"], tuple(map(_node, found["children"])))


def _type_words(column: ColumnInspection) -> str:
    # Fields of structs have lines of their own.
    return "struct" if column.type.startswith("Struct(") else column.type


def _ratio(column: ColumnInspection) -> str:
    return f"{column.decoded_bytes / column.size_bytes:,.1f}" if column.size_bytes else "–"


def _bytes_words(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000 or unit == "GB":
            break
        size /= 1_000
    return f"{count} B" if unit == "B" else f"{size:.3g} {unit}" if size < 1_000 else f"{size:,.0f} {unit}"


_STYLE = (
    ".entasis-inspect table{border-collapse:collapse}"
    ".entasis-inspect th,.entasis-inspect td{text-align:left;padding:2px 10px;vertical-align:top;white-space:nowrap}"
    ".entasis-inspect td.number{text-align:right;font-variant-numeric:tabular-nums}"
    ".entasis-inspect .bar{height:4px;background:#4c78a8}"
    ".entasis-inspect .node{display:inline-block;border:1px solid #0003;border-radius:4px;padding:0 4px;margin:1px;"
    "color:#222;vertical-align:top}"
    ".entasis-inspect .node small{color:#0009}"
)


def _row(column: ColumnInspection, numbers: list[str], share: float) -> str:
    pictures = "<br>".join(
        (f"{used.blocks} × " if len(column.cascades) > 1 else "") + _picture(used.tree) for used in column.cascades
    )
    others = "".join(f'<td class="number">{number}</td>' for number in numbers[1:])
    bar = f'<div class="bar" style="width:{share * 100:.1f}%"></div>'
    return (
        f"<tr><td>{html.escape(column.path)}</td><td>{html.escape(_type_words(column))}</td>"
        f'<td class="number" title="{column.blocks} blocks">{numbers[0]}{bar}</td>{others}<td>{pictures}</td></tr>'
    )


def _picture(node: CascadeNode) -> str:
    """A box that holds the boxes of its children."""
    # Every encoding has a colour of its own, also those to come.
    hue = crc32(node.encoding.encode()) % 360
    words = f"{node.encoding}: {node.rows:,} values, {node.size_bytes:,} bytes of its own"
    children = "".join(map(_picture, node.children))
    return (
        f'<span class="node" style="background:hsl({hue} 60% 88%)" title="{html.escape(words)}">'
        f"{html.escape(node.encoding)} <small>{_bytes_words(node.total_bytes)}</small>{children}</span>"
    )
