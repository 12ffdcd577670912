#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the rooflines of serving kernels (`decode`, `latent_decode`, `attention` in FP8 of models/gpu/*.yaml).

usage: fit_serving_kernels.py FOLDER [NAME ...]          (default: all fits below)

FOLDER holds the tables of ai-dynamo/aiconfigurator in `aiconfigurator/`, as CSV files, plain or gzipped. Fits and prints
as fit_kernels.py does, by decade of bytes read from the cache (attention of a prefill: of flop). Last come errors of
the shipped fits of products with few rows (`few rows`) that no fit here saw.
"""
import re
import sys
from pathlib import Path

import fit_kernels as base
from fit_kernels import ATTENTION, B200, B300, GB200, GB300, H100, Fit, Gpu
from kernel_rows import TERA, Row, deep_gemm, gemm, prefill, table

H20 = Gpu({"bf16": 148 * TERA, "fp8": 296 * TERA}, 4.0 * TERA)
PAGE = 64  # keys that every sequence reads besides, assumed where tables do not tell: a page of the cache


def cached(queries, attended, keys, heads, key_width, widths, size):
    """Attention to keys in a cache: sim/model/kernel.h. key_width: of all heads of keys, with their values."""
    products = 2 * queries * attended * heads * widths

    def flop(p):
        return products * (1 + p["half_keys"] / attended)

    def moved(p):
        passes = 1 + p.get("query_passes", 0)
        return size * (keys * key_width * (1 + p["half_keys"] / attended) + passes * queries * heads * widths)

    return (flop, moved)


def decode(file, cache, size):
    """Decode of grouped queries: one query per sequence on step + 1 keys, at most the window's."""
    def read(folder):
        for r in table(folder / "aiconfigurator" / file):
            batch, heads, kv_heads, width = (int(r[c]) for c in ("batch_size", "num_heads", "num_key_value_heads",
                                                                "head_dim"))
            if r["kv_cache_dtype"] != cache or width > 256 or heads % kv_heads != 0:
                continue
            keys = int(r["step"]) + 1
            keys = min(keys, int(r["window_size"]) or keys)
            kernel = cached(batch, keys, batch * keys, heads, kv_heads * 2 * width, 2 * width, size)
            read_bytes = float(size * batch * keys * kv_heads * 2 * width)
            yield Row(f"{batch} {keys} {heads} {kv_heads} {width} {r['window_size']}", [kernel], 0,
                      float(r["latency"]) * 1e-3, read_bytes)
    return read


def latent(file, cache, size, keep=lambda heads: heads != 32, least=1.25):
    """MLA decode: how much longer than at the shortest context a call of the whole module takes.

    Not with 32 heads, which Blackwell's kernel multiplies in other tiles, at 0.7 of the speed of 16 and of 64.
    """
    def read(folder):
        calls = {}
        for r in table(folder / "aiconfigurator" / file):
            if r["kv_cache_dtype"] != cache or r["gemm_type"] != "bfloat16" or not keep(int(r["num_heads"])):
                continue
            key = int(r["batch_size"]), int(r["num_heads"])
            calls.setdefault(key, {})[int(r["step"])] = float(r["latency"]) * 1e-3
        for (batch, heads), times in calls.items():
            def kernel(step):
                return cached(batch, step + 1, batch * (step + 1), heads, 576, 576 + 512, size)
            first = min(times)
            for step, time in times.items():
                if time < least * times[first]:
                    continue
                yield Row(f"{batch} {step} {heads}", [kernel(step)], 0, time - times[first],
                          float(size * batch * step * 576), [kernel(first)])
    return read


def model_text(name):
    return (Path(__file__).parent.parent / f"models/gpu/{name}-measured.yaml").read_text()


def shipped(name, kind, dtype, leave_out=("launch", "query_passes")):
    """The fit of a kind of kernels that a GPU model has; empty: it has none."""
    block = re.search(rf"\n  {kind}:\n((?:    .*\n?)+)", model_text(name))
    found = block and re.search(rf"    {dtype}: {{(.*?)}}", block[1])
    fields = (field.split(": ") for field in found[1].split(", ")) if found else ()
    return {key: float(value.split()[0]) for key, value in fields if key not in leave_out}


HIDDEN, Q_RANK, KV_RANK, NOPE, ROPE, VALUE = 7168, 1536, 512, 128, 64, 128  # DeepSeek-V3


def module_rest(file, name, gpu, cache, size, launch=3.0):
    """What of an MLA module's decode no product and no other kernel takes, at contexts below 300 tokens."""
    def read(folder):
        one = shipped(name, "gemm", "bf16", ())
        many = shipped(name, "grouped_gemm", "bf16", ()) or one
        memory = float(re.search(r"memory: ([0-9.]+) +# as of GEMMs", model_text(name))[1])

        def product(p, m, n, k, groups=1):
            fit = Fit("", gpu, "bf16", None, {"memory": 1.0, "sharpness": 100.0, "launch": launch} | p)
            return base.seconds(fit, fit.start, Row("", [gemm(m, n, k, 2, groups)], 0, 0, 0))

        def moved(elements):
            return launch * 1e-6 + 2 * elements / (gpu.bandwidth * memory)

        for r in table(folder / "aiconfigurator" / file):
            if r["kv_cache_dtype"] != cache or r["gemm_type"] != "bfloat16" or int(r["step"]) > 300:
                continue
            batch, heads, keys = int(r["batch_size"]), int(r["num_heads"]), int(r["step"]) + 1
            others = (product(one, batch, Q_RANK + KV_RANK + ROPE, HIDDEN) + product(one, batch, heads * 192, Q_RANK)
                      + product(many, batch, KV_RANK, NOPE, heads) + product(many, batch, VALUE, KV_RANK, heads)
                      + product(one, batch, HIDDEN, heads * VALUE) + moved(batch * (Q_RANK + KV_RANK) * 2)
                      + moved(batch * (heads + 1) * ROPE * 2) + moved(batch * (KV_RANK + ROPE) * 2))
            rest = float(r["latency"]) * 1e-3 - others
            if heads < 16 or heads == 32 or rest <= 5e-6:
                continue
            yield Row(f"{batch} {keys} {heads}", [cached(batch, keys, batch * keys, heads, 576, 576 + 512, size)], 0, rest,
                      float(batch * heads))
    return read


DECODE = {"efficiency": 0.5, "memory": 0.8, "launch": 10.0, "sharpness": 2.0, "half_keys": 100.0}
MODULE = {"launch": 20.0, "query_passes": 5.0}
LATENT = {"efficiency": 0.5, "memory": 0.8, "sharpness": 2.0}


def of_32(heads):
    return heads == 32


def fits_of(name, gpu, part):
    attending, module, scores = (f"{kind}_{part}_vllm0.24.0.csv" for kind in (
        "generation_attention", "mla_generation_module", "context_attention"))
    return [
        Fit(f"{name} decode", gpu, "bf16", decode(attending, "bfloat16", 2), DECODE, least_flop=1e6),
        Fit(f"{name} decode fp8", gpu, "fp8", decode(attending, "fp8", 1), DECODE, least_flop=1e6),
        Fit(f"{name} latent decode", gpu, "bf16", latent(module, "bfloat16", 2), LATENT,
            {"half_keys": PAGE, "launch": 0.0}, 1e6, also={"32 heads": latent(module, "bfloat16", 2, of_32)}),
        Fit(f"{name} latent decode fp8", gpu, "fp8", latent(module, "fp8", 1), LATENT,
            {"half_keys": PAGE, "launch": 0.0}, 1e6, also={"32 heads": latent(module, "fp8", 1, of_32)}),
        Fit(f"{name} MLA module", gpu, "bf16", module_rest(module, name, gpu, "bfloat16", 2), MODULE,
            shipped(name, "latent_decode", "bf16"), 1),
        Fit(f"{name} MLA module fp8", gpu, "fp8", module_rest(module, name, gpu, "fp8", 1), MODULE,
            shipped(name, "latent_decode", "fp8"), 1),
        Fit(f"{name} attention fp8", gpu, "fp8", prefill(scores, "fp8", 1), ATTENTION, {"memory": 0.8, "sharpness": 1.0}),
    ]


FITS = [Fit("h20 gemm fp8", H20, "fp8", deep_gemm("h20"), base.GROUPED, least_flop=1e6),
        Fit("h800 gemm fp8 with decode", H100, "fp8", deep_gemm("h800"), base.GROUPED, least_flop=1e6),
        *fits_of("h100", H100, "h100_sxm"), *fits_of("b200", B200, "b200_sxm"), *fits_of("b300", B300, "b300_sxm"),
        *fits_of("gb200", GB200, "gb200"), *fits_of("gb300", GB300, "gb300")]


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    base.main(arguments, FITS)


if __name__ == "__main__":
    main(sys.argv[1:])
