#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the rates of transports/*.yaml to published tables, and predicts every size from the others.

usage: fit_transports.py [--rates] FOLDER

FOLDER holds the published tables (docs/transports.md names them). Prints a line per curve: sizes, and by how much the
time of a size that is left out is missed, typically (median) and at worst; with --rates the lines for the files, too.
A curve is the time of an exchange less its start-up and the latency of its route, by the bytes on its busiest link.
Exit code 2: a table is missing.
"""
import argparse
import bisect
import csv
import gzip
import io
import math
import statistics
import sys
from pathlib import Path

NVLINK_LATENCY, NIC_LATENCY = 1.0, 3.0  # us, routes of topologies/h100-rail.yaml


def table(folder, name):
    data = (folder / name).read_bytes()
    text = gzip.decompress(data) if name.endswith(".gz") else data
    return list(csv.DictReader(io.StringIO(text.decode())))


def nccl(folder, files, ops, ranks, steps):
    """(bytes, us) of collectives; their rounds' latencies are taken off."""
    samples = []
    for name in files:
        for row in table(folder, f"aiconfigurator/nccl_{name}.csv{'.gz' if 'b300' in name else ''}"):
            n = int(row["num_gpus"])
            if row["op_name"] in ops and n in ranks and row["nccl_dtype"] == "half":
                size = int(row["message_size"]) * 2 * (n - 1) / n
                samples.append((size, float(row["latency"]) * 1e3 - steps(n) * NVLINK_LATENCY))
    return samples


def distinct(groups, experts=256, k=8):
    """Groups that a token with k of the experts needs, uniform routing."""
    return groups * (1 - math.comb(experts - experts // groups, k) / math.comb(experts, k))


def deepep_normal(folder, way, nodes, sms, rows, latency):
    """`rows` of a token that leave by the link; 7,168 values, FP8 there and BF16 back."""
    width = {"dispatch": 7472, "combine": 14384}[way]
    return [(int(row["num_token"]) * rows * width, float(row[f"{way}_transmit_us"]) - latency)
            for row in table(folder, "aiconfigurator/deepep_normal_h100_sxm_sglang0.5.6.post2.csv")
            if int(row["node_num"]) == nodes and int(row["dispatch_sms"]) == sms]


def deepep_low_latency(folder, way, nodes, part, latency):
    """`part` of the rows leave by the link."""
    width = {"dispatch": 7408, "combine": 14336}[way]
    return [(int(row["num_token"]) * 8 * part * width, float(row[f"{way}_avg_t_us"]) - latency)
            for row in table(folder, "aiconfigurator/deepep_ll_h100_sxm_sglang0.5.6.post2.csv")
            if int(row["node_num"]) == nodes and row["num_experts"] == "256"]


def deepep_normal_node(folder, gpu, gpus, way, sms):
    """The newer tables: one node, hidden 7,168, top-8 of 256 experts."""
    width = {"dispatch": 7472, "combine": 14384}[way]
    return [(int(row["num_token"]) * distinct(gpus) * (gpus - 1) / gpus * width,
             float(row[f"{way}_transmit_us"]) - NVLINK_LATENCY)
            for row in table(folder, f"aiconfigurator/deepep_normal_{gpu}_sglang0.5.12.csv.gz")
            if (row["hidden_size"], row["num_topk"], row["num_experts"]) == ("7168", "8", "256")
            and int(row[f"{way}_sms"]) == sms]


def deepep_low_latency_node(folder, gpu, gpus, way):
    """The same of low latency, all shapes of that table: a copy per expert."""
    samples = []
    for row in table(folder, f"aiconfigurator/deepep_ll_{gpu}_sglang0.5.12.csv.gz"):
        hidden, rows = int(row["hidden_size"]), int(row["num_token"]) * int(row["num_topk"])
        width = hidden + hidden // 128 * 4 + 16 if way == "dispatch" else 2 * hidden
        samples.append((rows * (gpus - 1) / gpus * width, float(row[f"{way}_avg_t_us"]) - NVLINK_LATENCY))
    return samples


def one_sided(folder, way):
    """NVFP4 rows with scales there, BF16 back, EP 4 to 32 of an NVL72; a balanced token has min(EP, 8) copies."""
    width = {"dispatch": 7168 * 9 / 16, "combine": 14336}[way]
    return [(int(row["num_tokens"]) * min(ep, 8) * (ep - 1) / ep * width,
             float(row["latency"]) * 1e3 - NVLINK_LATENCY)
            for row in table(folder, "aiconfigurator/trtllm_alltoall_gb200_trtllm1.3.0rc10.csv.gz")
            for ep in [int(row["moe_ep_size"])]
            if row["kernel_source"] == "NVLinkOneSided" and row["op_name"] == f"alltoall_{way}" and ep >= 4]


def send_recv(folder, name):
    rows = table(folder, f"vidur_network/{name}.csv.gz")
    return [(int(float(r["size"])), float(r["time_stats.send_recv.median"]) * 1e3 - NIC_LATENCY)
            for r in rows if r["num_workers"] == "2" and r["devices_per_node"] == "1"]


def curves(folder):
    """(transport, link, bandwidth in GB/s, start-up in us, samples)"""
    h100, a100 = ("h100_sxm_2.29.2", "h100_sxm_2.27.3"), ("a100_sxm_2.27.3",)
    rings = ("all_gather", "reduce_scatter")
    one, several = (lambda n: 1), (lambda n: n - 1)
    yield "nccl-p2p", "nvlink", 300, 6, nccl(folder, a100, ("alltoall",), (4, 8), one)
    yield "nccl-p2p", "nvlink", 450, 6, nccl(folder, h100, ("alltoall",), (4, 8), one)
    yield "nccl-p2p, one peer", "nic", 50, 14, send_recv(folder, "h100_dgx_send_recv")
    yield "nccl-ring", "nvlink", 300, 3, nccl(folder, a100, rings, (8,), several)
    yield "nccl-ring", "nvlink", 450, 3, nccl(folder, h100, rings, (8,), several)
    yield "nccl-p2p", "nvlink", 900, 9, nccl(folder, ("b300_sxm_nccl2.29.2",), ("alltoall",), (4, 8), one)
    yield "nccl-ring", "nvlink", 900, 3, nccl(folder, ("b300_sxm_nccl2.29.2",), rings, (8,), several)
    for way, host in (("dispatch", 13.6), ("combine", 22.8)):
        yield f"nvlink-one-sided, {way}", "nvlink", 900, host, one_sided(folder, way)
    for way, normal, low_latency in (("dispatch", 34, 14), ("combine", 47, 11)):
        yield f"deepep-normal, {way}", "nvlink", 900, normal, deepep_normal_node(folder, "b300_sxm", 8, way, 24)
        yield f"deepep-ll, {way}", "nvlink", 900, low_latency, deepep_low_latency_node(folder, "b300_sxm", 8, way)
    for way, host, fabric in (("dispatch", 34, 34), ("combine", 47, 57)):
        name = f"deepep-normal, {way}"
        yield name, "nvlink", 450, host, deepep_normal(folder, way, 1, 20, distinct(8) * 7 / 8,
                                                       NVLINK_LATENCY)
        yield name, "nic", 50, fabric, deepep_normal(folder, way, 4, 24, distinct(4) * 3 / 4,
                                                     NIC_LATENCY)
    for way, host, fabric in (("dispatch", 14, 19), ("combine", 11, 22)):
        name = f"deepep-ll, {way}"
        yield name, "nvlink", 450, host, deepep_low_latency(folder, way, 1, 7 / 8, NVLINK_LATENCY)
        yield name, "nic", 50, fabric, [
            sample for nodes, part in ((2, 1 / 2), (4, 3 / 4))
            for sample in deepep_low_latency(folder, way, nodes, part, NIC_LATENCY)]


def between(points, size):
    """Linear between points; below the first and above the last its rate holds."""
    at = bisect.bisect_right([p[0] for p in points], size)
    if at == 0 or at == len(points):
        near = points[min(at, len(points) - 1)]
        return near[1] * size / near[0]
    (low, t_low), (high, t_high) = points[at - 1], points[at]
    return t_low + (t_high - t_low) * (size - low) / (high - low)


def error_of(points, start, samples):
    return sum(math.log((start + between(points, size)) / time) ** 2 for size, time in samples)


def sound(points, bandwidth):
    """Whether times ascend and no rate is above the link's."""
    times = [t for _, t in points]
    return times == sorted(times) and all(t >= s / bandwidth / 1e3 for s, t in points)


def fit(start, bandwidth, samples):
    """Points (bytes, us) a factor of 4 apart whose curve has the least squared error of the logarithms."""
    first, last = min(samples)[0], max(samples)[0]
    count = max(2, round(math.log(last / first, 4)) + 1)
    sizes = [first * (last / first) ** (i / (count - 1)) for i in range(count)]
    points, before = [], 1e-3
    for size in sizes:
        near = min(samples, key=lambda sample: abs(math.log(sample[0] / size)))
        before = max(before, (near[1] - start) * min(1, size / near[0]), size / bandwidth / 1e3)
        points.append((size, before))
    best = error_of(points, start, samples)
    step = 1.3
    while step > 1.0005:
        moved = False
        for i, (size, time) in enumerate(points):
            for factor in (step, 1 / step):
                tried = points[:i] + [(size, time * factor)] + points[i + 1:]
                error = error_of(tried, start, samples) if sound(tried, bandwidth) else best
                if error < best:
                    points, best, moved = tried, error, True
                    break
        if not moved:
            step = math.sqrt(step)
    return points


def left_out(start, bandwidth, samples):
    """Relative errors of the times of the sizes, each predicted by the curve of all others."""
    samples = sorted(samples)
    errors = []
    for size, time in samples[1:-1]:
        rest = [s for s in samples if s[0] != size]
        errors.append((start + between(fit(start, bandwidth, rest), size)) / time - 1)
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", action="store_true", help="print lines for the files")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        for transport, link, bandwidth, start, samples in curves(arguments.folder):
            if link == "nic" and transport.startswith("nccl"):
                samples = samples[::25]  # of 994
            errors = [abs(e) for e in left_out(start, bandwidth, samples)]
            print(f"| `{transport}` | {link} of {bandwidth} GB/s | {len(errors)} | "
                  f"{100 * statistics.median(errors):.1f} % | {100 * max(errors):.1f} % |")
            if arguments.rates:
                for size, time in fit(start, bandwidth, samples):
                    rate = min(size / time / 1e3, bandwidth)
                    print(f"      - {{size: {round(size)} B, rate: {rate:.4g} GB/s}}")
    except FileNotFoundError as missing:
        print(f"fit_transports: {missing.filename} is missing", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
