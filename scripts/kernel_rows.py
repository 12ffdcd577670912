# SPDX-License-Identifier: Apache-2.0
"""Published kernel times as rows: what each call computes and moves, and what it took. For fit_kernels.py.

A reader takes the folder that holds the tables as CSV files, plain or gzipped: those of ai-dynamo/aiconfigurator in
`aiconfigurator/`, of alibaba/InferSim in `infersim_h20_h800/`, of deepseek-ai/DeepGEMM in `published/`, of
NVIDIA/cudnn-frontend (benchmark/sdpa_benchmark_training/results) in `cudnn-frontend/`.
"""
import csv
import gzip
import math
from dataclasses import dataclass, field

TERA = 1e12
FP4 = 0.5625  # bytes of an element with its share of a scale of one byte for 16
INT4 = 0.5625  # weights of compressed-tensors: a scale of two bytes for 32
MXFP4 = 0.53125  # the same for 32


@dataclass
class Row:
    """One measured call: kernels in a row, and what runs with them."""
    shape: str
    kernels: list  # (flop by efficiency parameters, bytes)
    side: float    # bytes of memory-bound work with them
    seconds: float
    flop: float
    less: list = field(default_factory=list)  # kernels whose time was taken off, launches too


def table(path):
    found = next((p for p in (path, path.with_name(path.name + ".gz")) if p.exists()), None)
    if found is None:
        raise FileNotFoundError(f"{path}[.gz]")
    opened = gzip.open(found, "rt", newline="") if found.suffix == ".gz" else open(found, newline="")
    with opened as lines:
        return list(csv.DictReader(lines))


# What kernels compute and move: sim/model/roofline.cpp.

def gemm(m, n, k, size, groups=1, stored=0):
    """`groups` of m rows each; results are of two bytes, weights of as many as rows or `stored`."""
    rows = groups * m
    moved = size * rows * k + (stored or size) * groups * n * k + 2 * rows * n

    def flop(p):
        padded = rows + (groups * p.get("group_rows", 0) if groups > 1 else 0)
        return 2 * padded * n * k * (1 + p.get("half_sum", 0) / k)

    return (flop, moved)


HEIGHTS = (8, 16, 32, 64, 128)  # of tiles of TensorRT-LLM's kernels: the least that holds a group's rows


def tiles(rows, n, k, size, weights, groups):
    """Groups of equal rows that fill their last tile; `weights` are read in bytes of their own."""
    m = rows / groups
    height = next((h for h in HEIGHTS if h >= m), HEIGHTS[-1])
    filled = groups * math.ceil(m / height) * height
    moved = size * rows * k + 2 * rows * n + weights * groups * n * k
    return (lambda p: 2 * filled * n * k * (1 + p.get("half_sum", 0) / k), moved)


def attention_flop(queries, attended, heads, qk, v, backward=False):
    return 2.0 * queries * attended * heads * (3 * qk + 2 * v if backward else qk + v)


def attention(queries, attended, heads, kv_heads, qk, v, size, backward=False):
    moved = queries * (heads + kv_heads) * (qk + v) * size * (2 if backward else 1)
    products = attention_flop(queries, attended, heads, qk, v, backward)

    def flop(p):
        slower = (p["backward"] if backward else 1) * (p.get("uneven", 1) if qk != v else 1)
        return products * (1 + p["half_keys"] / attended) * (1 + p["half_width"] / ((qk + v) / 2)) / slower

    return (flop, moved)


# Tables.

def dense(file, dtype, size, kernel=""):
    """aiconfigurator's GEMMs; those below two bytes time the cast of the activations, too."""
    def read(folder):
        for r in table(folder / "aiconfigurator" / file):
            if r["gemm_dtype"] != dtype or kernel not in r["kernel_source"]:
                continue
            m, n, k = (int(r[c]) for c in "mnk")
            cast = m * k * (2 + size) if size < 2 else 0
            yield Row(f"{m} {n} {k}", [gemm(m, n, k, size)], cast, float(r["latency"]) * 1e-3, 2.0 * m * n * k)
    return read


def fp8_product(groups, m, n, k, time):
    """A product of DeepGEMM, or one of each group."""
    return Row(f"{groups} {m} {n} {k}", [gemm(m, n, k, 1, groups)], 0, time, 2.0 * groups * m * n * k)


def deep_gemm(gpu, phases=("prefill", "decode")):
    """DeepGEMM in FP8 by InferSim: products, and those of experts in a prefill or a decode."""
    def read(folder):
        for r in table(folder / f"infersim_h20_h800/gemm_{gpu}_data.csv"):
            yield fp8_product(1, int(r["m"]), int(r["n"]), int(r["k"]), float(r["latency_us"]) * 1e-6)
        for phase in phases:
            for r in table(folder / f"infersim_h20_h800/grouped_gemm_{phase}_{gpu}_data.csv"):
                groups, m = int(r["num_local_experts"]), int(r["tokens_per_expert"])
                hidden, ffn = int(r["hidden_size"]), int(r["intermediate_size"])
                if m < 2:  # some experts have no rows
                    continue
                yield fp8_product(groups, m, 2 * ffn, hidden, float(r["up_proj_us"]) * 1e-6)
                yield fp8_product(groups, m, hidden, ffn, float(r["down_proj_us"]) * 1e-6)
    return read


def published_fp8(folder):
    """GEMMs and grouped GEMMs of DeepGEMM on H800, without casts."""
    for r in table(folder / "published/deepgemm_published_h800_fp8.csv"):
        groups, m, n, k = (int(r[c]) for c in ("groups", "m_per_group", "n", "k"))
        yield fp8_product(groups, m, n, k, 2.0 * groups * m * n * k / (float(r["TFLOPS"]) * TERA))
    yield from deep_gemm("h800", ("prefill",))(folder)


PLAIN = ((2688, 1856), (4096, 2688), (1024, 2688), (2048, 5120))  # two matrices per expert: Nemotron


def experts(file, dtype, size, distribution="balanced", keep=lambda hidden, ffn, experts: True, weights=0, of="",
            stored=0):
    """A fused MoE layer of aiconfigurator on one GPU: two GEMMs per expert, activation, weighted sum, casts. With
    bytes of `weights`, GEMMs of whole tiles. With `of`, only kernels with that name, of all ranks of experts.
    `stored`: bytes of weights that are multiplied in the type of rows."""
    def read(folder):
        for r in table(folder / "aiconfigurator" / file):
            ranks = int(r["moe_ep_size"])
            if r["moe_dtype"] != dtype or r["distribution"] != distribution or (ranks != 1 and not of):
                continue
            tokens, hidden, top_k = int(r["num_tokens"]), int(r["hidden_size"]), int(r["topk"])
            ffn = int(r["inter_size"]) // int(r["moe_tp_size"])
            groups = int(r.get("num_slots", r["num_experts"])) // ranks
            if not keep(hidden, int(r["inter_size"]), groups) or ffn < 256 or of not in r["kernel_source"]:
                continue
            up = 1 if (hidden, int(r["inter_size"])) in PLAIN else 2
            rows = max(tokens * top_k // ranks, 1)
            groups = min(groups, rows)
            side = 2 * ((1 + up) * rows * ffn + rows * hidden + tokens * hidden)
            if size < 2:
                side += (2 + size) * (tokens * hidden + rows * ffn)
            m = rows / groups
            kernels = [gemm(m, up * ffn, hidden, size, groups, stored), gemm(m, hidden, ffn, size, groups, stored)]
            if weights:
                kernels = [tiles(rows, up * ffn, hidden, size, weights, groups),
                           tiles(rows, hidden, ffn, size, weights, groups)]
            yield Row(f"{hidden} {ffn} {top_k} {groups} {tokens}", kernels, side, float(r["latency"]) * 1e-3,
                      2.0 * rows * hidden * ffn * (1 + up))
    return read


def prefill(file, cache="bfloat16", size=2):
    """Causal attention of whole sequences without windows: to keys in bfloat16 in that type, to those in FP8 in any.
    Tables leave out columns of one value."""
    def read(folder):
        for r in table(folder / "aiconfigurator" / file):
            if size == 2 and r.get("attn_dtype", "bfloat16") != "bfloat16":
                continue
            if r["kv_cache_dtype"] != cache or r.get("step", "0") != "0" or int(r.get("window_size") or 0) != 0:
                continue
            batch, length, heads, width = (int(r[c]) for c in ("batch_size", "isl", "num_heads", "head_dim"))
            kv_heads = int(r["num_key_value_heads"]) or heads
            if width > 256 or heads % kv_heads != 0:
                continue
            attended = (length + 1) / 2
            kernel = attention(batch * length, attended, heads, kv_heads, width, width, size)
            yield Row(f"{batch} {length} {heads} {kv_heads} {width}", [kernel], 0, float(r["latency"]) * 1e-3,
                      attention_flop(batch * length, attended, heads, width, width))
    return read


def trained(gpu, dtype, size, models=("dsv3", "kimiK26", "llama3.1", "gpt_oss")):
    """Attention of cuDNN in training, forward and backward, causal and full, some in windows."""
    def read(folder):
        for model in models:
            for r in table(folder / f"cudnn-frontend/{model}_{gpu}.csv"):
                if r["backend"] != "cudnn" or r["data_type"] != dtype or r["deterministic_bwd"] == "True":
                    continue
                batch, length, heads, kv_heads, qk, v = (int(r[c]) for c in (
                    "batch_size", "q_seqlen", "num_q_heads", "num_kv_heads", "head_dim_qk", "head_dim_vo"))
                window = min(int(float(r["sliding_window_size"] or 0)) or length, length)
                causal = r["attn_mask"] == "top_left"
                attended = window - window * (window - 1) / 2 / length if causal else length
                for way in ("fwd", "bwd") if r["profile_pass"] == "both" else (r["profile_pass"],):
                    time = float(r.get("time_ms") or r[f"{way}_time_ms"]) * 1e-3
                    backward = way == "bwd"
                    kernel = attention(batch * length, attended, heads, kv_heads, qk, v, size, backward)
                    yield Row(f"{model} {length} {causal} {backward}", [kernel], 0, time,
                              attention_flop(batch * length, attended, heads, qk, v, backward))
    return read


def received(file):
    """Experts of a rank behind DeepEP on H100, SGLang: DeepGEMM's grouped GEMMs, activation, casts, gather and sum."""
    def read(folder):
        for r in table(folder / "aiconfigurator" / file):
            ranks, tokens, hidden, ffn = (int(r[c]) for c in ("moe_ep_size", "num_tokens", "hidden_size", "inter_size"))
            if r["distribution"] != "uniform" or ranks > 16:
                continue
            groups, rows = int(r["num_experts"]) // ranks, tokens * int(r["topk"]) / ranks
            side = rows * (2 * 3 * ffn + 3 * ffn + 2 * hidden + 4 * hidden)
            m = rows / groups
            kernels = [gemm(m, 2 * ffn, hidden, 1, groups), gemm(m, hidden, ffn, 1, groups)]
            yield Row(f"{ranks} {tokens}", kernels, side, float(r["latency"]) * 1e-3, 6.0 * rows * hidden * ffn)
    return read


def mla(file):
    """Multi-head latent attention of a prefill, unabsorbed: 192 wide queries and keys, 128 wide values."""
    def read(folder):
        for r in table(folder / "aiconfigurator" / file):
            if r["mla_dtype"] != "bfloat16" or r["kv_cache_dtype"] != "bfloat16" or r["step"] != "0":
                continue
            batch, length, heads = int(r["batch_size"]), int(r["isl"]), int(r["num_heads"])
            attended = (length + 1) / 2
            kernel = attention(batch * length, attended, heads, heads, 192, 128, 2)
            yield Row(f"{batch} {length} {heads}", [kernel], 0, float(r["latency"]) * 1e-3,
                      attention_flop(batch * length, attended, heads, 192, 128))
    return read
