#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the rooflines of a GPU model (`kernels` of models/gpu/*.yaml) to published kernel times.

usage: fit_kernels.py FOLDER [NAME ...]          (default: all fits below)

FOLDER holds the tables as CSV files, plain or gzipped: those of ai-dynamo/aiconfigurator in `aiconfigurator/`, of
alibaba/InferSim in `infersim_h20_h800/`, of deepseek-ai/DeepGEMM in `published/`, of NVIDIA/cudnn-frontend in
`cudnn-frontend/`. Fits the formula of
sim/model/roofline.h to seven of ten shapes by the least mean of |log(formula / measured)|, and prints the fitted
values, then the errors of the other three of ten by decade of flop. Shapes are drawn by a hash, so that the result is
the same every time.
"""
import math
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from kernel_rows import FP4, INT4, MXFP4, TERA, dense, experts, mla, prefill, published_fp8, received, trained

SAMPLE = 500  # shapes per decade of flop that a fit looks at; errors are of all that were held out


@dataclass
class Gpu:
    peak: dict
    bandwidth: float


A100 = Gpu({"bf16": 312 * TERA}, 2.039 * TERA)
H100 = Gpu({"bf16": 989.4 * TERA, "fp8": 1978.9 * TERA}, 3.35 * TERA)
B200 = Gpu({"bf16": 2250 * TERA, "fp8": 4500 * TERA, "fp4": 9000 * TERA}, 8 * TERA)
B300 = Gpu({"bf16": 2250 * TERA, "fp8": 4500 * TERA, "fp4": 13500 * TERA}, 8 * TERA)
GB200 = Gpu({"bf16": 2500 * TERA, "fp8": 5000 * TERA, "fp4": 10000 * TERA}, 8 * TERA)
GB300 = Gpu({"bf16": 2500 * TERA, "fp8": 5000 * TERA, "fp4": 15000 * TERA}, 8 * TERA)


@dataclass
class Fit:
    """What is fitted: parameters in order, their first guesses, and the fixed ones."""
    name: str
    gpu: Gpu
    type: str
    read: object
    start: dict
    fixed: dict = field(default_factory=dict)
    least_flop: float = 1e9
    most: float = 1        # efficiency
    also: dict = field(default_factory=dict)  # name -> rows that only test


# The formula: sim/model/roofline.cpp.

def seconds(fit, p, row):
    peak = fit.gpu.peak[fit.type] * p["efficiency"]
    bandwidth = fit.gpu.bandwidth * p["memory"]

    def time(kernel):
        flop, moved = kernel
        compute, memory = flop(p) / peak, (moved(p) if callable(moved) else moved) / bandwidth
        longer = max(compute, memory)
        ratio = min(compute, memory) / longer
        return longer * (1 + ratio ** p["sharpness"]) ** (1 / p["sharpness"])

    launch = 0 if row.less else p["launch"] * 1e-6
    side = row.side / (fit.gpu.bandwidth * p.get("cast", p["memory"]))
    total = launch + side + sum(time(kernel) for kernel in row.kernels)
    if row.less:
        return total - sum(time(kernel) for kernel in row.less)
    return max(total, p.get("host", 0) * 1e-6)  # calls in a row take as long as the slower of host and GPU


GEMM = {"efficiency": 0.7, "memory": 0.8, "launch": 5.0, "sharpness": 3.0, "half_sum": 100.0}
GROUPED = {**GEMM, "group_rows": 50.0}
CALLED = {"efficiency": 0.7, "sharpness": 3.0, "half_sum": 100.0, "host": 100.0, "cast": 0.4}  # by Python, with a cast
ATTENTION = {"efficiency": 0.7, "launch": 10.0, "half_keys": 150.0, "half_width": 20.0}
GEMM_A100, GEMM_H100 = (f"gemm_perf_{g}.csv" for g in ("a100_sxm_vllm0.14.0", "h100_sxm_vllm0.24.0"))
MOE_A100, MOE_H100 = (f.replace("gemm", "moe") for f in (GEMM_A100, GEMM_H100))


def ungrouped(hidden, ffn, count):
    return (hidden, ffn, count) != (7168, 2048, 256)  # DeepSeek-V3: its balanced tokens take half of the groups


TRAINED = {**ATTENTION, "uneven": 0.9, "backward": 0.8}
TILED = {name: value for name, value in GROUPED.items() if name != "group_rows"}


def blackwell(name, gpu, part, dense_efficiency):
    """The fits of a GPU of this family, whose kernels are of one version of vLLM. Tiles are no more efficient than what
    the model has of dense GEMMs in fp8 and fp4: experts of tables have too few rows to say. With that bound fp8 of all
    sizes is a fifth slow above 1e12 flop. DeepGEMM's fp8 streams weights as bf16 does on B200: fitted, 0.773."""
    gemms, layers, scores = (f"{kind}_{part}_vllm0.24.0.csv" for kind in ("gemm_perf", "moe_perf", "context_attention"))
    return [
        Fit(f"{name} gemm", gpu, "bf16", dense(gemms, "bfloat16", 2), GEMM),
        Fit(f"{name} gemm fp8", gpu, "fp8", dense(gemms, "fp8_block", 1, "DeepGemm"), CALLED,
            {"launch": 3.0, "memory": 0.772}),
        Fit(f"{name} gemm fp8 CUTLASS", gpu, "fp8", dense(gemms, "fp8", 1), GEMM, least_flop=1e11),
        Fit(f"{name} gemm fp4", gpu, "fp4", dense(gemms, "nvfp4", FP4), GEMM, least_flop=1e11),
        Fit(f"{name} MoE", gpu, "bf16", experts(layers, "bfloat16", 2), GROUPED),
        Fit(f"{name} MoE fp8", gpu, "fp8", experts(layers, "fp8", 1), GROUPED),
        Fit(f"{name} MoE fp8 block", gpu, "fp8", experts(layers, "fp8_block", 1, keep=ungrouped), GROUPED,
            {"launch": 3.0}, 1e8),
        Fit(f"{name} MoE fp4", gpu, "fp4", experts(layers, "nvfp4", FP4), GROUPED),
        Fit(f"{name} MoE mxfp4", gpu, "bf16", experts(layers, "w4a16_mxfp4", 2, of="gptoss", stored=MXFP4), GROUPED,
            {"launch": 3.0}),
        Fit(f"{name} MoE int4", gpu, "bf16", experts(layers, "int4_wo", 2, stored=INT4), GROUPED, least_flop=1e7),
        Fit(f"{name} MoE mxfp4 by mxfp8", gpu, "fp8", experts(layers, "w4a8_mxfp4_mxfp8", 1, stored=MXFP4), GROUPED,
            least_flop=1e7),
        Fit(f"{name} tiles", gpu, "bf16", experts(layers, "bfloat16", 2, weights=2), TILED, {"launch": 3.0}),
        Fit(f"{name} tiles fp8 x fp4", gpu, "fp8", experts(layers, "w4a8_mxfp4_mxfp8", 1, weights=FP4), TILED,
            {"launch": 3.0}, 1e11, most=dense_efficiency[0]),
        Fit(f"{name} tiles fp4", gpu, "fp4", experts(layers, "nvfp4", FP4, weights=FP4), TILED, {"launch": 3.0},
            most=dense_efficiency[1]),
        Fit(f"{name} attention", gpu, "bf16", prefill(scores), ATTENTION, {"memory": 0.78, "sharpness": 1.0}),
    ]


def in_training(name, gpu):
    """Attention of cuDNN; in MXFP8 without windows, whose backward pass computes what they mask."""
    fixed = {"memory": 0.78, "sharpness": 1.0}
    return [Fit(f"{name} attention in training", gpu, "bf16", trained(name, "bfloat16", 2), TRAINED, fixed),
            Fit(f"{name} attention in training mxfp8", gpu, "fp8",
                trained(name, "mxfp8", 1, ("dsv3", "kimiK26", "llama3.1")), TRAINED, fixed)]


def tuned(hidden, ffn, count):
    return count == 8  # Mixtral: the serving engine has tuned settings for these shapes


TILE = {"group_rows": 64.0}  # assumed: half a tile of 128 rows

FITS = [
    Fit("a100 gemm", A100, "bf16", dense(GEMM_A100, "bfloat16", 2), GEMM, TILE,
        also={"MoE, Triton": experts(MOE_A100, "bfloat16", 2, "power_law_1.01"),
              "MoE of Mixtral, Triton": experts(MOE_A100, "bfloat16", 2, "power_law_1.01", tuned)}),
    Fit("h100 gemm", H100, "bf16", dense(GEMM_H100, "bfloat16", 2), GEMM, TILE,
        also={"MoE, Triton": experts(MOE_H100, "bfloat16", 2),
              "MoE of Mixtral, Triton": experts(MOE_H100, "bfloat16", 2, keep=tuned)}),
    Fit("h100 gemm fp8", H100, "fp8", published_fp8, GROUPED,
        also={"fp8_block, DeepGEMM, vLLM": dense(GEMM_H100, "fp8_block", 1, "DeepGemm"),
              "fp8, CUTLASS, vLLM": dense(GEMM_H100, "fp8", 1),
              "MoE behind DeepEP, DeepGEMM, SGLang": received("wideep_context_moe_h100_sxm.csv")}),
    Fit("a100 MoE", A100, "bf16", experts(MOE_A100, "bfloat16", 2, "power_law_1.01"), GROUPED),
    Fit("h100 MoE", H100, "bf16", experts(MOE_H100, "bfloat16", 2), GROUPED),
    Fit("h100 MoE mxfp4", H100, "bf16", experts(MOE_H100, "w4a16_mxfp4", 2, of="gptoss", stored=MXFP4), GROUPED,
        {"launch": 60.0}, 1e7),  # what a layer of one token takes; free it would be 97
    Fit("h100 MoE int4", H100, "bf16", experts(MOE_H100, "int4_wo", 2, stored=INT4), GROUPED, least_flop=1e7),
    Fit("h100 MoE fp8 block, Triton", H100, "fp8", experts(MOE_H100, "fp8_block", 1, of="triton"), GROUPED,
        least_flop=1e7),
    Fit("h100 MoE fp8 block, CUTLASS", H100, "fp8", experts(MOE_H100, "fp8_block", 1, of="cutlass"), GROUPED,
        least_flop=1e7),
    Fit("h100 MoE fp8 block, TensorRT-LLM", H100, "fp8", experts("wideep_moe_perf_h100_sxm_trtllm1.3.0rc10.csv",
        "fp8_block", 1, "power_law_1.01_eplb", of="cutlass"), GEMM, {"group_rows": 0.0}, 1e7),
    Fit("h100 MoE of Mixtral", H100, "bf16", experts(MOE_H100, "bfloat16", 2, keep=tuned), GROUPED),
    Fit("a100 attention", A100, "bf16", prefill("context_attention_a100_sxm_vllm0.14.0.csv"), ATTENTION,
        {"memory": 0.8, "sharpness": 1.0, "half_width": 0.0}),
    Fit("h100 attention", H100, "bf16", prefill("context_attention_h100_sxm_vllm0.24.0.csv"), ATTENTION,
        {"memory": 0.87, "sharpness": 1.0, "backward": 0.86},
        also={"MLA, TensorRT-LLM": mla("context_mla_h100_sxm_trtllm1.3.0rc20.csv"),
              "cuDNN on H200, training": trained("h200", "bfloat16", 2, ("llama3.1", "gpt_oss"))}),
    *in_training("gb200", GB200),
    *in_training("gb300", GB300),
    *blackwell("b200", B200, "b200_sxm", (0.615, 0.541)),
    *blackwell("b300", B300, "b300_sxm", (0.675, 0.4)),
    *blackwell("gb200", GB200, "gb200", (0.615, 0.508)),
    *blackwell("gb300", GB300, "gb300", (0.66, 0.387)),
]


# The fit.

def draw(shape):
    return zlib.crc32(shape.encode()) % 1000 / 1000


def held_out(row):
    return draw(row.shape) < 0.3


def decade(flop):
    return math.floor(math.log10(flop))


def sample(rows):
    """As many of each decade, if there are as many: small kernels are the most by number, not by time."""
    by_decade = {}
    for row in sorted(rows, key=lambda row: draw(row.shape)):
        by_decade.setdefault(decade(row.flop), []).append(row)
    return [row for some in by_decade.values() for row in some[:SAMPLE]]


def cost(fit, p, rows):
    return sum(abs(math.log(seconds(fit, p, row) / row.seconds)) for row in rows) / len(rows)


LIMITS = {"memory": (0.01, 1), "cast": (0.01, 1), "sharpness": (1, 100), "launch": (0.1, 1000)}  # launch in us


def minimum(fit, rows):
    """Coordinate descent in the logarithms of the parameters."""
    names = [n for n in fit.start if n not in fit.fixed]
    p = {**fit.start, **fit.fixed}
    p["efficiency"] = min(p["efficiency"], fit.most)
    step = dict.fromkeys(names, 0.3)
    best = cost(fit, p, rows)
    while max(step.values()) > 0.005:
        for name in names:
            for factor in (math.exp(step[name]), math.exp(-step[name])):
                low, high = (0.01, fit.most) if name == "efficiency" else LIMITS.get(name, (1e-3, 1e6))
                tried = {**p, name: min(high, max(low, p[name] * factor))}
                value = cost(fit, tried, rows)
                if value < best:
                    p, best = tried, value
                    step[name] *= 1.2
                    break
            else:
                step[name] *= 0.5
    return p


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def print_errors(fit, p, rows, title):
    errors = [(row.flop, seconds(fit, p, row) / row.seconds - 1) for row in rows]
    first = min(8, decade(fit.least_flop))
    decades = [(10.0 ** d, 10.0 ** (d + 1)) for d in range(first, 15)]
    for low, high in [*decades, (fit.least_flop, math.inf)]:
        some = [e for flop, e in errors if low <= flop < high]
        if len(some) < 5:
            continue
        sizes = [abs(e) for e in some]
        print(f"  {title}: flop {low:.0e}{'' if high < math.inf else ' and more'}: {len(some)} shapes, median "
              f"{percentile(sizes, 0.5):.1%}, 90th percentile {percentile(sizes, 0.9):.1%}, "
              f"signed median {percentile(some, 0.5):+.1%}")


def run(fit, folder):
    rows = list(fit.read(folder))
    large = [row for row in rows if row.flop >= fit.least_flop]
    known = sample([row for row in large if not held_out(row)])
    p = minimum(fit, known)
    values = ", ".join(f"{name}: {value:.3g}" for name, value in p.items())
    print(f"{fit.name}: {{{values}}}  # {len(known)} of {len(rows)} rows")
    print_errors(fit, p, [row for row in rows if held_out(row)], "held out")
    for name, read in fit.also.items():
        print_errors(fit, p, list(read(folder)), name)


def main(arguments, fits=FITS):
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    folder, names = Path(arguments[0]), arguments[1:]
    unknown = set(names) - {fit.name for fit in fits}
    if unknown:
        sys.exit(f"fit_kernels.py: no fit '{min(unknown)}'\nhint: one of {', '.join(fit.name for fit in fits)}")
    try:
        for fit in fits:
            if not names or fit.name in names:
                run(fit, folder)
    except FileNotFoundError as error:
        sys.exit(f"fit_kernels.py: no table {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
