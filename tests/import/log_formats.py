#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the routing of formats.py as loggers of many programs write it, and captures of training microbatches.

log_formats.py FOLDER: as formats.py. FOLDER/table/<form>/... are rows in JSON lines, CSV and plain text.
"""
import base64
import json
import struct
import sys

from formats import (EXPERTS, LAYERS, TOP_K, Tensor, choice, counts_of, flat, int32, lines, npy, rows, shape_of, torch_save,
                     write, write_json)

REQUESTS = [("a", 0, 5), ("b", 5, 4)]  # name, first token, tokens
TOKENS = [(name, t - first, t) for name, first, count in REQUESTS for t in range(first, first + count)]
WEIGHTS = [0.75, 0.25]


def json_rows(folder):
    def nested(name, place, token):
        routing = [{"expert_ids": choice(token, l), "gate_weights": WEIGHTS, "layer_index": l} for l in LAYERS]
        return {"phase": "prefill", "request_id": name, "routing": routing, "row_type": "forward-token", "token_id": 7,
                "token_index": place}
    write(f"{folder}/logger/l.jsonl", lines(
        [{"type": "meta", "layers_logged": LAYERS, "top_k": TOP_K}] +
        [{"type": "route", "req_id": n, "token_idx": p, "layer": l, "topk_ids": choice(t, l), "topk_weights": WEIGHTS}
         for n, p, t in TOKENS for l in LAYERS]))
    write(f"{folder}/preplay/trace.jsonl", lines(
        [{"provenance": {"expert_count": EXPERTS, "moe_layer_indices": LAYERS, "top_k": TOP_K}, "row_type": "header"},
         {"input_token_ids": [1, 2], "request_id": "a", "row_type": "request"}] +
        [nested(*token) for token in TOKENS] + [{"request_count": 2, "row_type": "footer"}]))
    write(f"{folder}/batches/trace.jsonl", lines(
        [{"layer": l, "batch_id": i, "origin_rows": [0] * count, "topk_experts": [choice(t, l) for t in range(first, first + count)]}
         for i, (_, first, count) in enumerate(REQUESTS) for l in LAYERS]))
    write_json(f"{folder}/keyed/a.json", [
        {"request": n, "position": p, "layers": {f"layer_{l}": choice(t, l) for l in LAYERS}} for n, p, t in TOKENS])
    write(f"{folder}/all-layers/a.jsonl", lines(
        [{"seq_id": n, "pos": p, "expert_ids": [choice(t, l) for l in LAYERS]} for n, p, t in TOKENS]))
    write(f"{folder}/renamed/a.jsonl", lines(
        [{"who": choice(t, l), "where": l, "when": p, "of": n, "layer": 99} for n, p, t in TOKENS for l in LAYERS]))


def passes(form):
    """Layer by layer, as engines run: form(layer, place, token) makes the text of a token."""
    return "".join(form(l, t - first, t) for _, first, count in REQUESTS for l in LAYERS for t in range(first, first + count))


def csv_rows(folder):
    write(f"{folder}/choices/moe_trace.csv", "layer,expert\n" + passes(
        lambda l, p, t: "".join(f"{l},{e}\n" for e in choice(t, l))))
    write(f"{folder}/joined/moe_trace.csv", "".join("layer,expert\n" + "".join(
        f"{l},{e}\n" for l in LAYERS for t in range(first, first + count) for e in choice(t, l)) for _, first, count in REQUESTS))
    slots = "".join(f"{r},{p},{l},{k},{e},nan,0\n" for r, (_, first, count) in enumerate(REQUESTS)
                    for p, t in enumerate(range(first, first + count)) for l in LAYERS for k, e in enumerate(choice(t, l)))
    write(f"{folder}/slots/trace.csv", f"# route_trace v1\n# model=x n_expert={EXPERTS} n_expert_used={TOP_K}\n"
          "turn,step,layer,slot,expert,weight,residency\n" + slots)
    write(f"{folder}/lists/log.csv", "=== MoE Expert Selection Log ===\nLayer,Token,ExpertIDs,ExpertWeights\n" + passes(
        lambda l, p, t: f'{l},{p},"[{" ".join(map(str, choice(t, l)))}]","[0.75 0.25]"\n'))
    write(f"{folder}/wide/a.tsv", "seq\ttoken\tlayer\texpert_0\texpert_1\tweight_0\tweight_1\n" + "".join(
        f"{n}\t{p}\t{l}\t{choice(t, l)[0]}\t{choice(t, l)[1]}\t0.75\t0.25\n" for n, p, t in TOKENS for l in LAYERS))
    for layer in LAYERS:
        write(f"{folder}/file-per-layer/layer{layer}.csv", "req_id;token_idx;layer;topk_ids\n" + "".join(
            f"{n};{p};{layer};{choice(t, layer)[0]} {choice(t, layer)[1]}\n" for n, p, t in TOKENS))
    aligned = [(("a", "b").index(n), p, l, *choice(t, l)) for n, p, t in TOKENS for l in LAYERS]
    write(f"{folder}/aligned/a.txt", "INFO experts\n seq  token  layer expert_0   expert_1\n" + "".join(
        " {:3}  {:5} {:6}\t{:8} {:10}\n".format(*row) for row in aligned))
    write(f"{folder}/printed/a.txt", "     seq  token  layer  expert_0  expert_1\n" + "".join(
        "{:<4} {:3}  {:5}  {:5}  {:8}  {:8}\n".format(i, *row) for i, row in enumerate(aligned)))
    write(f"{folder}/columns/a.txt", "".join(f"{l},{p},{e}\n" for n, p, t in TOKENS for l in LAYERS for e in choice(t, l)))


def text_rows(folder):
    write(f"{folder}/headings/moe.log", "Prompt: what is 2 + 2\n" + "".join(
        f"\nLayer {l} - Selected Expert IDs (top-2):\n" + "".join(
            f"  Token {p}: {choice(t, l)}\n" for p, t in enumerate(range(first, first + count))) +
        f"Layer {l} - Expert Routing Weights:\n  Token 0: [0.75, 0.25] (sum=1.000)\n"
        for _, first, count in REQUESTS for l in LAYERS))
    write(f"{folder}/pairs/moe.log", "INFO 11-26 started\n" + "".join(
        f"INFO 11-26 moe: req={n} layer={l} token={p} experts={choice(t, l)} weights=[0.75, 0.25]\n" for n, p, t in
        [({"a": 0, "b": 1}[n], p, t) for n, p, t in TOKENS] for l in LAYERS))


def counted(folder):
    by_rank = [(0, 0, 5), (1, 5, 4)]
    for rank, first, count in by_rank:
        write(f"{folder}/sglang-counts-csv/expert_distribution_rank{rank}_timestamp17.5.csv", "layer_id,expert_id,count\n" + "".join(
            f"{l},{e},{n}\n" for l in LAYERS for e, n in enumerate(counts_of(first, count, l)) if n > 0))
    write_json(f"{folder}/sglang-counts-json/a.json", {"logical_count": [[counts_of(0, 9, l) for l in range(3)]]})
    write_json(f"{folder}/sglang-counts-flat-json/a.json", {"logical_count": [counts_of(0, 9, l) for l in range(3)]})
    write_json(f"{folder}/sglang-counts-passes-json/a.json", {
        "records": [{"forward_pass_id": 2, "rank": rank, "global_physical_count": [counts_of(first, count, l) for l in range(3)]}
                    for rank, first, count in by_rank],
        "last_physical_to_logical_map": [list(range(EXPERTS))] * 3})
    write(f"{folder}/table-counts/a.jsonl", lines(
        [{"layer": l, "tokens_per_expert": counts_of(0, 9, l), "total": 18} for l in LAYERS]))


def encoded(folder):
    """What servers return around SGLang and vLLM, in every form of bytes."""
    def short(nested):
        return struct.pack(f"<{len(flat(nested))}h", *flat(nested))
    a, b = rows(0, 5, LAYERS), rows(5, 4, LAYERS)
    write(f"{folder}/sglang-routes-nvext/r.jsonl", lines([
        {"choices": [{"index": 0}], "nvext": {"routed_experts": int32(rows(0, 5, range(3)))}},
        {"choices": [{"index": 0, "nvext": {"engine_data": {"routed_experts": int32(rows(5, 4, range(3)))}}}]}]))
    write(f"{folder}/vllm-routes-nvext/r.jsonl", lines([
        {"nvext": {"routed_experts": {"data": base64.b85encode(short(a)).decode(), "shape": shape_of(a)}}},
        {"nvext": {"routed_experts": {"data": base64.b64encode(short(b)).decode(), "shape": shape_of(b), "dtype": "int16"}}}]))
    write(f"{folder}/vllm-routes-coded/r.jsonl", lines([
        {"choices": [{"routed_experts": f"nrlre1:int16:5x2x2:{base64.b64encode(short(a)).decode()}"}]},
        {"choices": [{"routed_experts": base64.b64encode(npy(b)).decode()}]}]))


def alternating(token, layer, sequences):
    """Tokens of a sequence choose alike, those of others not."""
    first = 2 * (token % sequences)
    return [first, first + 1] if token % 7 else [first + layer, (first + layer + 3) % EXPERTS]


def captures(folder):
    def of(layer, sequences, tokens=96):
        return Tensor("Short", [alternating(t, layer, sequences) for t in range(tokens)])
    torch_save(f"{folder}/replay-three/step0.pt", [of(l, 3) for l in LAYERS])
    torch_save(f"{folder}/replay-mtp/step0.pt", [Tensor("Short", [choice(t, l) for t in range(9)]) for l in LAYERS + [3]])
    torch_save(f"{folder}/replay-two-more/step0.pt", [Tensor("Short", [choice(t, l) for t in range(9)]) for l in LAYERS + [3, 4]])
    for layer in LAYERS:
        for rank, (_, first, count) in enumerate(REQUESTS):
            ids = Tensor("Long", [choice(t, layer) for t in range(first, first + count)])
            torch_save(f"{folder}/flame-captures/1080/{layer + 1}/0-{rank}.pt", (Tensor("Float", [WEIGHTS] * count), ids))
    torch_save(f"{folder}/wrong/capture-twice-real/2/0-0.pt", (Tensor("Float", [WEIGHTS] * 3), Tensor("Float", [WEIGHTS] * 3)))
    for layer in (2, 3):
        torch_save(f"{folder}/wrong/capture-uneven/{layer}/0-{layer}.pt", (Tensor("Float", [WEIGHTS]), Tensor("Long", [[0, 1]])))
    write(f"{folder}/wrong/capture-none/a/b.txt", "x")


def wrong_logs(folder):
    def one(name, content):
        write(f"{folder}/wrong/{name}", content)
    one("log-unknown/a.jsonl", lines([{"alpha": 1, "beta": [1, 2]}]))
    one("log-columns/a.csv", "alpha,beta\n1,2\n")
    one("log-no-layer/a.csv", "token,expert\n0,1\n0,2\n")
    one("log-cells/a.csv", "layer,expert\n1\n1,2\n1,3\n")
    one("log-apart/a.jsonl", lines([{"layer": l, "token": l, "experts": [0, 1]} for l in LAYERS]))
    one("log-three/a.jsonl", lines([{"layer": 1, "token": 0, "experts": [0, 1, 2]}]))
    one("log-uneven/a.jsonl", lines([{"layer": 1, "token": t, "experts": [0, 1][:2 - t]} for t in range(2)]))
    one("log-run/a.csv", "layer,expert\n1,0\n1,1\n1,2\n2,0\n2,1\n")
    one("log-beyond/a.csv", "layer,expert,count\n1,9,4\n2,0,4\n")
    one("log-text/a.csv", "layer,expert\n1,none\n")
    one("log-facts/a.jsonl", lines([{"num_experts": 16}, {"layer": 1, "token": 0, "experts": [0, 1]}]))
    one("log-binary/a.csv", b"\0\1\2\3")
    one("no-routes/a.json", json.dumps({"id": "c", "choices": [{"text": "x"}]}))
    one("counts-of-nothing/a.json", json.dumps({"alpha": 1}))
    one("counts-placement/a.json", json.dumps({"physical_to_logical_map": [[0, 1]]}))
    one("shape-of-nothing/a.json", json.dumps({"nvext": {"routed_experts": {"data": "AAAA", "shape": [7, 2, 2]}}}))
    one("coded-short/a.json", json.dumps({"choices": [{"routed_experts": "nrlre1:int16:5x2x2:AAAA"}]}))
    one("text-for-torch/a.csv", "layer,expert\n1,2\n")
    one("text-for-responses/a.csv", "layer,expert\n1,2\n")
    one("json-for-torch/a.json", json.dumps({"logical_count": []}))


if __name__ == "__main__":
    for write_rows in (json_rows, csv_rows, text_rows):
        write_rows(f"{sys.argv[1]}/table")
    for kind in (counted, encoded, captures, wrong_logs):
        kind(sys.argv[1])
