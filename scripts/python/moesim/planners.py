# SPDX-License-Identifier: Apache-2.0
"""Balancers of others in Python, to begin one's own with: moesim.placement(moesim.planners.eplb)."""


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
