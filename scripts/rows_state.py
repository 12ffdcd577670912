# SPDX-License-Identifier: Apache-2.0
"""What predicted iterations are off, as `moesim compare --intervals` reads it (papers/iterations-state.json)."""

import json

FORMAT = "moesim-papers-state"


def state_of(judged):
    """Of sections whose times count, without rows that something was fitted to. Speedups: of all pairs of rows
    of one model on as many GPUs and of one release, either way; rows that are one scenario are no pair."""
    absolute, relative = {}, {}
    for section, results in judged:
        if not section.get("times", True):
            continue
        def kin(row):
            release = row["id"].rsplit("-", 1)[1] if section.get("releases") else ""
            return row["model"], row["gpus"], release

        rows = [r for r in results if "error" in r and not r.get("fitted")]
        for a in rows:
            absolute[f"{section['id']}/{a['id']}"] = round(a["error"], 4)
            for b in rows:
                if a is not b and kin(a) == kin(b) and a["rate"] != b["rate"]:
                    error = (1 + a["error"]) / (1 + b["error"]) - 1
                    relative[f"{section['id']}/{a['id']} over {b['id']}"] = round(error, 4)
    return {"format": FORMAT, "absolute": absolute, "relative": relative}


def write(path, judged):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(state_of(judged), f, indent=1)
        f.write("\n")
