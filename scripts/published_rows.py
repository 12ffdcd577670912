# SPDX-License-Identifier: Apache-2.0
"""The published iterations of tests/rows/rows.yaml, as scenarios of moesim and as seconds."""

import os

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROWS = os.path.join(ROOT, "tests", "rows", "rows.yaml")
PARALLEL = ("tp", "cp", "pp", "vpp", "ep", "etp", "layout", "embedding_as_layer", "loss_as_layer",
            "first_stage_layers", "last_stage_layers")
KNOWN = set(PARALLEL) | {
    "id", "same", "model", "gpus", "precision", "global", "micro", "sequence", "dispatcher", "software", "graphs",
    "pipeline", "delay_wgrad", "recompute", "zero", "set", "measured", "memory", "fits", "parts", "parts_of", "state", "note", "fitted", "overlap", "trace", "drawn",
    "whole", "scores"}


def read_rows(path=ROWS):
    """All rows, each with the keys of its section and of the row that it repeats."""
    with open(path, encoding="utf-8") as f:
        data = yaml.safe_load(f)
    sections = []
    for section in data["sections"]:
        known = {}
        for row in list(section.get("rows", [])) + in_series(section):
            repeated = known.get(row.get("same"), {})
            full = {**data["defaults"], **section.get("base", {}), **repeated, **row}
            unknown = set(full) - KNOWN
            if unknown or ("same" in row and not repeated):
                raise ValueError(f"{section['id']}/{row['id']}: {unknown or row['same']}?")
            known[row["id"]] = {k: v for k, v in full.items() if k not in ("measured", "memory", "fits", "parts", "note", "id")}
            full["machine"] = data["machines"][section["machine"]]
            full["dispatch"] = data["dispatchers"][full["dispatcher"]]
            full["unit"] = section["unit"]
            full["section"] = section["id"]
            full["source"] = section["source"]
            section.setdefault("all", []).append(full)
        sections.append(section)
    return sections


def in_series(section):
    """The rows of a series: one per number of GPUs."""
    rows = []
    for series in section.get("series", []):
        for gpus, measured in zip(series["gpus"], series["measured"], strict=True):
            rows.append({**series, "id": f"{series['id']}-{gpus}", "gpus": gpus, "measured": measured})
    return rows


def scenario(row, gpu_suffix, changes=(), trace=None):
    """The row as a scenario of moesim, of balanced routing if it has no trace: what it states and the machine, the
    rest by default. `changes` are more of `set`."""
    machine, dispatch = row["machine"], row["dispatch"]
    parallel = {k: row[k] for k in PARALLEL if k in row}
    overlap = dict(row.get("overlap", {}))
    if row.get("delay_wgrad"):
        overlap["delay_wgrad"] = True
    out = {
        "topology": machine["topology"],
        "model": row["model"],
        "policy": dispatch["policy"],
        "parallel": parallel,
        "batch": {k: row[k] for k in ("global", "micro", "sequence")},
        "routing": "balanced",
        "microbatches": {"distinct": 2},
        "precision": row.get("precision", "bf16"),
        "memory": "ignore",
    }
    out.update({k: row[k] for k in ("software", "zero", "recompute") if k in row})
    if trace:
        out["routing"], out["trace"] = "recorded", os.path.abspath(trace)
    if "pipeline" in row:
        out["pipeline"] = row["pipeline"]
    if overlap:
        out["overlap"] = overlap
    if row.get("graphs"):
        out["host"] = {"graphs": row["graphs"]}
    out.update(row.get("state", {}))
    changes = [*changes, f"topology.nodes={-(-row['gpus'] // machine['node'])}",
               f"topology.node.gpu={gpu_name(machine['gpu'], gpu_suffix)}"]
    adapters = machine.get("adapters")
    if adapters in dispatch and tokens_leave_nodes(row):
        changes.append(f"topology.node.nics.bandwidth={dispatch[adapters]}")
    if "sms" in dispatch and merges(row):
        changes.append(f"policy.dispatch.sms={dispatch['sms']}")
    changes += machine.get("set", []) + dispatch.get("set", []) + row.get("set", [])
    out["set"] = changes
    return out


def merges(row):
    """Whether exchanges of one pass run beside the kernels of another."""
    return row.get("pipeline", "").startswith("combined")


def tokens_leave_nodes(row):
    """Whether EP groups span nodes. Where they do not, rings alone cross adapters, at the topology's rate."""
    return row.get("ep", 1) * row["etp"] > row["machine"]["node"]


def gpu_name(gpu, suffix):
    """Kernels as they were in training, where somebody timed those, else as `suffix` says."""
    first = (f"{gpu}-training",) if suffix == "measured" else ()
    for name in first + (f"{gpu}-{suffix}", f"{gpu}-sxm", f"{gpu}-sxm-80gb", gpu):
        if os.path.exists(os.path.join(ROOT, "models", "gpu", name + ".yaml")):
            return name
    raise ValueError(f"no model of GPU {gpu}")


def measured_seconds(row, predicted):
    """What was measured as seconds. TFLOP/s and MFU become so with the flop that moesim counts, and with all
    scores where the row says `scores: whole`."""
    unit, value = row["unit"], row["measured"]
    tokens = row["global"] * row["sequence"]
    if unit == "s":
        return value
    if unit == "ms":
        return value * 1e-3
    if unit == "tokens":
        return tokens / (row["gpus"] * value)
    peak = 989.5 if unit == "mfu" else 100.0
    flop = predicted["flop_per_token"]
    if row.get("scores") == "whole":
        flop += masked_flop(row["model"], row["sequence"])
    return tokens * flop / (row["gpus"] * value / 100 * peak * 1e12)


def masked_flop(model, sequence):
    """Of the scores per token that a causal mask leaves out, which some sources count."""
    with open(os.path.join(ROOT, "models", "moe", model + ".yaml"), encoding="utf-8") as f:
        shape = yaml.safe_load(f)
    attention = shape["attention"]
    return 6 * shape["layers"] * 2 * attention["heads"] * attention["head_dim"] * sequence / 2


def microbatches(row):
    replicas = row["gpus"] // (row.get("tp", 1) * row.get("cp", 1) * row.get("pp", 1))
    return row["global"] // (row["micro"] * replicas)


def fewer(row):
    """Two numbers of microbatches that show what each further one takes, or none for short rows."""
    pp, chunks = row.get("pp", 1), row.get("vpp", 1)
    first = pp * max(2 + chunks // 4, -(-16 // pp))
    second = first + pp * max(1, 8 // pp)
    return (first, second) if microbatches(row) > 1.25 * second else None
