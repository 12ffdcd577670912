# SPDX-License-Identifier: Apache-2.0
"""A drawing of boxes in layers with arrows that all point down, as SVG."""
from xml.sax.saxutils import escape

BOX_WIDTH, BOX_HEIGHT = 168, 44
GAP, LANE, LAYER = 26, 18, 104  # between boxes, next to an arrow that passes a layer, from layer to layer
MOST_LETTERS = 27  # of a text in a box
MARGIN = 24
SIDES = ("sim", "realhw")  # left and right half of the picture
FILL = {"sim": "#e8f0fa", "realhw": "#fdf0e0"}
LINE = {"sim": "#3465a4", "realhw": "#b3661a"}


def layers_of(graph):
    """node -> its layer: 0 where it points at nothing, else one above the highest that it points at."""
    layers = {}

    def visit(node):
        if node not in layers:
            layers[node] = max((visit(target) + 1 for target in graph.get(node, ())), default=0)
        return layers[node]

    for node in sorted(graph):
        visit(node)
    return layers


def reduced(graph):
    """The arrows that no chain of other arrows says already, as sorted pairs."""
    reach = {}

    def visit(node):
        if node not in reach:
            reach[node] = set().union(*({t} | visit(t) for t in graph.get(node, ())), set())
        return reach[node]

    return sorted((node, target) for node in graph for target in graph[node]
                  if not any(target in visit(other) for other in graph[node] if other != target))


def spaced(wanted, widths):
    """Positions nearest to the wanted ones (least squares) whose neighbours are at least `widths` apart."""
    offsets = [sum(widths[:i]) for i in range(len(wanted))]
    blocks = []  # (sum of what is wanted less the offset, count): neighbours that touch are one block
    for i, place in enumerate(wanted):
        blocks.append((place - offsets[i], 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            last = blocks.pop()
            blocks[-1] = (blocks[-1][0] + last[0], blocks[-1][1] + last[1])
    flat = [total / count for total, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(flat, offsets)]


class Drawing:
    """arrows: (from, to) pairs; layers: node -> layer; texts: node -> its second line."""

    def __init__(self, arrows, layers, texts):
        self.texts = texts
        self.layer = dict(layers)
        self.lines = [self.line_of(a, b) for a, b in arrows]
        self.rows = [sorted((n for n in self.layer if self.layer[n] == i), key=str) for i in range(max(layers.values()) + 1)]
        self.near = {n: [] for n in self.layer}
        for line in self.lines:
            for upper, lower in zip(line, line[1:]):
                self.near[upper].append(lower)
                self.near[lower].append(upper)
        self.order()
        self.place()

    def line_of(self, upper, lower):
        """The nodes of an arrow: its ends, and a bend in each layer between them."""
        bends = []
        for layer in range(self.layer[upper] - 1, self.layer[lower], -1):
            bends.append((upper, lower, layer))
            self.layer[bends[-1]] = layer
        return [upper, *bends, lower]

    def side(self, node):
        """0 or 1: which half holds a node, or a bend of an arrow from one."""
        name = node if isinstance(node, str) else node[0]
        return SIDES.index(name.split("/")[0])

    def crossings(self):
        count = 0
        for row in self.rows[1:]:
            below = {n: i for i, n in enumerate(self.rows[self.layer[row[0]] - 1])}
            ends = [place for n in row for place in sorted(below[t] for t in self.near[n] if t in below)]
            count += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1:])
        return count

    def order(self):
        """Orders every row by the mean place of its neighbours, up and down, and keeps the order with the fewest crossings."""
        for row in self.rows:
            row.sort(key=lambda n: (self.side(n), str(n)))
        best, fewest = [list(row) for row in self.rows], self.crossings()
        for sweep in range(40):
            up = sweep % 2 == 0
            for i in (range(1, len(self.rows)) if up else range(len(self.rows) - 2, -1, -1)):
                beside = {n: k for k, n in enumerate(self.rows[i - 1 if up else i + 1])}
                now = {n: k for k, n in enumerate(self.rows[i])}

                def mean(n):
                    places = [beside[t] for t in self.near[n] if t in beside]
                    return sum(places) / len(places) if places else now[n]

                self.rows[i].sort(key=lambda n: (self.side(n), mean(n), now[n]))
            if self.crossings() < fewest:
                best, fewest = [list(row) for row in self.rows], self.crossings()
        self.rows = best

    def width(self, node):
        return BOX_WIDTH + GAP if isinstance(node, str) else LANE

    def place(self):
        """x of every node: as near to its neighbours as the width of boxes lets it."""
        self.x = {}
        for row in self.rows:
            at = 0
            for node in row:
                self.x[node] = at + self.width(node) / 2
                at += self.width(node)
        for sweep in range(200):
            for row in (self.rows if sweep % 2 == 0 else self.rows[::-1]):
                wanted = [sum(self.x[t] for t in self.near[n]) / len(self.near[n]) if self.near[n] else self.x[n] for n in row]
                widths = [(self.width(a) + self.width(b)) / 2 for a, b in zip(row, row[1:])]
                self.x.update(zip(row, spaced(wanted, widths)))
        left = min(self.x[n] - self.width(n) / 2 for n in self.x)
        self.x = {n: round(x - left) + MARGIN for n, x in self.x.items()}

    def y(self, node):
        """Of the middle of a node's layer; the lowest layer is at the bottom."""
        return MARGIN + (len(self.rows) - 1 - self.layer[node]) * LAYER + BOX_HEIGHT // 2

    def arrow(self, line):
        # Straight down past the boxes of a layer, sideways only in the space between two layers: no arrow crosses a box.
        half, past = BOX_HEIGHT // 2, BOX_HEIGHT // 2 + 6
        path = f"M {self.x[line[0]]} {self.y(line[0]) + half}"
        for upper, lower in zip(line, line[1:]):
            x0, y0 = self.x[upper], self.y(upper) + (half if upper == line[0] else past)
            x1, y1 = self.x[lower], self.y(lower) - (half if lower == line[-1] else past)
            bend = (y1 - y0) * 2 // 3
            path += f" L {x0} {y0} C {x0} {y0 + bend} {x1} {y1 - bend} {x1} {y1}"
        side = SIDES[self.side(line[0])]
        return (f'<path class="{side}" d="{path}" marker-end="url(#{side})">'
                f"<title>{escape(line[0])} includes {escape(line[-1])}</title></path>")

    def box(self, node):
        x, y = self.x[node] - BOX_WIDTH // 2, self.y(node) - BOX_HEIGHT // 2
        side = SIDES[self.side(node)]
        return (f'<g><rect class="{side}" x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
                f'<text class="name" x="{self.x[node]}" y="{y + 18}">{escape(node)}</text>'
                f'<text class="purpose" x="{self.x[node]}" y="{y + 34}">{escape(self.texts[node])}</text></g>')

    def svg(self):
        width = max(self.x[n] + self.width(n) // 2 for n in self.x) + MARGIN
        height = MARGIN * 2 + (len(self.rows) - 1) * LAYER + BOX_HEIGHT
        style = "".join(f"path.{s}{{stroke:{LINE[s]}}} rect.{s}{{fill:{FILL[s]};stroke:{LINE[s]}}} " for s in SIDES)
        heads = "".join(f'<marker id="{s}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
                        f'<path d="M 0 0 L 8 4 L 0 8 z" fill="{LINE[s]}"/></marker>' for s in SIDES)
        boxes = sorted(n for n in self.x if isinstance(n, str))
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            "<!-- Drawn by scripts/draw_layout.py. -->",
            f"<style>.sim,.realhw{{stroke-width:1.3}} path.sim,path.realhw{{fill:none}} {style}text{{font-family:sans-serif;text-anchor:middle}} "
            ".name{font-size:14px;font-weight:bold} .purpose{font-size:12px;fill:#333}</style>",
            f"<defs>{heads}</defs>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *map(self.arrow, self.lines),
            *map(self.box, boxes),
            "</svg>",
        ]) + "\n"
