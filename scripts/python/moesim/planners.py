# SPDX-License-Identifier: Apache-2.0
"""Balancers of others in Python, to begin one's own with: moesim.placement(moesim.planners.eplb)."""

import math


def replicate(loads, slots):
    """Every expert once, then each further slot to the one with the most load per copy: the experts, and their copies."""
    held, copies = list(range(len(loads))), [1] * len(loads)
    while len(held) < slots:
        expert = max(range(len(loads)), key=lambda e: (loads[e] / copies[e], -e))
        held.append(expert)
        copies[expert] += 1
    return held, copies


def pack(weights, packs):
    """Packs of equally many: the heaviest item first, each into the lightest pack with room; the items of every pack."""
    if len(weights) == packs:
        return [[item] for item in range(packs)]
    packed, total = [[] for _ in range(packs)], [0.0] * packs
    for item in sorted(range(len(weights)), key=lambda i: -weights[i]):
        at = min((p for p in range(packs) if len(packed[p]) < len(weights) // packs), key=lambda p: (total[p], p))
        packed[at].append(item)
        total[at] += weights[item]
    return packed


def eplb(ask):
    """DeepSeek's EPLB as moesim has it: groups of experts to nodes if these divide them, then copies to the node's ranks."""
    loads, ranks, room = ask["loads"], ask["ranks"], ask["slots_per_rank"]
    nodes, groups = ask.get("nodes", 1), ask.get("expert_groups", 1)
    if groups % nodes:
        nodes = groups = 1
    size = len(loads) // groups
    sums = [sum(loads[g * size:(g + 1) * size]) for g in range(groups)]
    slots = []
    for of_node in pack(sums, nodes):
        here = [expert for g in of_node for expert in range(g * size, (g + 1) * size)]
        own = [loads[expert] for expert in here]
        held, copies = replicate(own, ranks * room // nodes)
        for items in pack([own[i] / copies[i] for i in held], ranks // nodes):
            slots.append([here[held[item]] for item in items])
    return slots


def cube():
    """LPLB's wiring of 8 ranks: [rank][class] is the rank whose experts of the class this rank copies."""
    return [[r // 4 * 4 + (r + 3) % 4, r ^ 6 if r < 4 else r - 4] for r in range(8)]


def ring(ranks):
    """A wiring of one class: every rank copies experts of the next one."""
    return [[(r + 1) % ranks] for r in range(ranks)]


def torus(rows, columns):
    """A wiring of two classes: the next row and the next column."""
    return [[(i + 1) % rows * columns + j, i * columns + (j + 1) % columns] for i in range(rows) for j in range(columns)]


def lplb(wiring, per_class=1):
    """DeepSeek's LPLB: experts by EPLB without copies; the heaviest of each rank are copied along the wiring, and a linear program
    splits the choices of every batch. To be asked with splits=True and slots_per_gpu = experts / ranks + per_class * classes."""
    group, copied = len(wiring), per_class * len(wiring[0])

    def place(ask):
        loads = ask["loads"]
        one_each = {**ask, "slots_per_rank": len(loads) // ask["ranks"], "expert_groups": ask["ranks"] // group}
        own = [sorted(rank, key=lambda e: (-loads[e], e)) for rank in eplb(one_each)]
        return [own[r] + [own[r // group * group + wiring[r % group][i % len(wiring[0])]][i] for i in range(copied)]
                for r in range(ask["ranks"])]

    def split(ask):
        slots, by_rank = ask["slots"], ask["loads"]
        held, owned = len(slots[0]), len(slots[0]) - copied
        loads = [sum(column) for column in zip(*by_rank)]
        pairs = {expert: (rank * held + i, rank * held + i, 1.0) for rank, row in enumerate(slots)
                 for i, expert in enumerate(row[:owned])}
        for first in range(0, len(slots), group):
            own = [row[:owned] for row in slots[first:first + group]]
            stays = _stays(wiring, own, copied, loads)
            for r in range(group):
                for i in range(copied):
                    from_rank, cls = wiring[r][i % len(wiring[r])], i % len(wiring[r])
                    expert = own[from_rank][i]
                    pairs[expert] = pairs[expert][0], (first + r) * held + owned + i, stays[from_rank][cls]
        return [[_shares(*pairs[expert], count) for expert, count in enumerate(row)] for row in by_rank]

    def ask_lplb(ask):
        return split(ask) if ask["do"] == "split" else place(ask)

    ask_lplb.__name__ = "lplb"
    return ask_lplb


def _shares(original, copy, stays, count):
    """The choices that one rank makes of an expert as runs of [slot, choices], in the order of its tokens."""
    runs = []
    for i in range(count if original != copy else 0):
        slot = original if (499 * i + 41) % count < stays * count else copy
        if not runs or runs[-1][0] != slot:
            runs.append([slot, 0])
        runs[-1][1] += 1
    return runs or [[original, 1]]


def _stays(wiring, own, copied, loads):
    """[rank][class]: which part of the copied experts' choices stays on their own rank, so that the busiest rank has least. Five
    affine-scaling steps in the order of moesim's own, so that the last digit is the same; 0.5 each if they do not get there."""
    ranks, classes = len(wiring), len(wiring[0])
    pairs = ranks * classes
    even = [[0.5] * classes for _ in range(ranks)]
    scale = max(loads)
    if scale <= 0:
        return even
    movable, fixed = [[0.0] * classes for _ in range(ranks)], [0.0] * ranks
    for r, experts in enumerate(own):
        for i, expert in enumerate(experts):
            if i < copied:
                movable[r][i % classes] += loads[expert]
            else:
                fixed[r] += loads[expert]
    # Variables: what stays and what leaves of each pair, the slack of each rank, the busiest load, an artificial one.
    busiest, artificial = 2 * pairs + ranks, 2 * pairs + ranks + 1
    rows, right = [dict() for _ in range(ranks + pairs)], [0.0] * (ranks + pairs)
    for r in range(ranks):
        for d, q in enumerate(wiring[r]):
            for column, part in ((r * classes + d, movable[r][d]), (pairs + q * classes + d, movable[q][d])):
                rows[r][column] = rows[r].get(column, 0.0) + part / scale
            rows[ranks + r * classes + d] = {r * classes + d: 1.0, pairs + r * classes + d: 1.0}
            right[ranks + r * classes + d] = 1.0
        rows[r][2 * pairs + r], rows[r][busiest] = 1.0, -1.0
        right[r] = -fixed[r] / scale
    for i, row in enumerate(rows):
        row[artificial] = right[i] - _sum(row[column] for column in sorted(row))
    rows = [sorted(row.items()) for row in rows]
    x, largest = [1.0] * (artificial + 1), 0.0
    for _ in range(5):
        largest = _step(rows, x, {busiest: 1.0, artificial: 1000.0})
        if largest < 0:
            return even
    wrong = max(abs(_sum((a * x[column] for column, a in row), -right[i])) for i, row in enumerate(rows))
    if largest >= 0.1 or not 0 <= x[artificial] < 1e-4 or wrong >= 0.05:
        return even
    return [[min(max(x[r * classes + d], 0.0), 1.0) for d in range(classes)] for r in range(ranks)]


def _sum(terms, total=0.0):
    """One term after the other: sum() of newer Pythons rounds otherwise."""
    for term in terms:
        total += term
    return total


def _step(rows, x, costs):
    """One step of x towards less cost; the largest entry of its direction, -1 if there is none."""
    normal, y = [[0.0] * len(rows) for _ in rows], [0.0] * len(rows)
    others = {}
    for k, row in enumerate(rows):
        for column, a in row:
            others.setdefault(column, []).append((k, a))
    for i, row in enumerate(rows):
        for column, a in row:
            scaled = a * x[column] * x[column]
            for k, b in others[column]:
                if k <= i:
                    normal[i][k] += scaled * b
            y[i] += scaled * costs.get(column, 0.0)
    if not _solve(normal, y):
        return -1.0
    reduced = [costs.get(column, 0.0) for column in range(len(x))]
    for i, row in enumerate(rows):
        for column, a in row:
            reduced[column] -= a * y[i]
    direction = [x[column] * reduced[column] for column in range(len(x))]
    largest = max(direction)
    if largest <= 0:
        return 0.0 if largest == 0 else -1.0
    for column, d in enumerate(direction):
        x[column] *= 1 - 0.999 / largest * d
    return largest


def _solve(m, v):
    """Solves the symmetric m by Cholesky's factors, both in place; false unless m is positive."""
    for i, row in enumerate(m):
        for j in range(i + 1):
            total = row[j]
            for k in range(j):
                total -= row[k] * m[j][k]
            if i != j:
                row[j] = total / m[j][j]
            elif total > 0:
                row[i] = math.sqrt(total)
            else:
                return False
    for i, row in enumerate(m):
        for k in range(i):
            v[i] -= row[k] * v[k]
        v[i] /= row[i]
    for i in reversed(range(len(v))):
        for k in range(i + 1, len(v)):
            v[i] -= m[k][i] * v[k]
        v[i] /= m[i][i]
    return True
