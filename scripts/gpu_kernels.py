#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels of PyTorch on the first GPU, to hold GPU models and software against (docs/results/gpu.md).

usage: gpu_kernels.py OUT [SECTION ...]          (default: all sections)

Writes OUT/SECTION.csv, a line per case with its median time in seconds:

  gemm        dense products, bf16 and fp8 (m x k by k x n)
  grouped     products of experts and both gradients, balanced and skewed; with few activated experts
  attention   causal scores, forward and backward, by cuDNN and FlashAttention-2
  memory      kernels that are bound by memory
  host        what the host takes to issue a kernel, and a graph to start one
  sustained   rates of the first tenth of a second and after seconds of work
  contention  a copy that holds multiprocessors next to a product, and what either takes longer
  model       layers of Qwen3-30B-A3B of the library transformers, an iteration: model.trace.json.gz, model.choices.npy

Data are random normal. Inputs rotate over 256 MB, so that no weights are found in the cache.
"""
import math
import pathlib
import statistics
import subprocess
import sys
import time

import numpy
import torch
import triton
import triton.language as tl

from gpu_timing import GPU, Table, copies, elapsed, graph_of, normal, timed, timed_eagerly

QWEN, DEEPSEEK = (2048, 768, 8), (7168, 2048, 8)  # hidden, width of an expert, choices


# Products.

def gemm(out):
    table = Table(out / "gemm.csv", ["type", "m", "n", "k"])
    widths = [(5120, 2048), (2048, 4096), (7168, 16384), (24576, 1536), (4096, 7168), (7168, 18432), (8192, 8192), (151936, 2048)]
    for n, k in widths:
        for m in (1, 16, 128, 512, 2048, 4096, 16384):
            if m * n <= 1 << 30:
                table.add("bf16", m, n, k, measure=lambda: dense(m, n, k))
                table.add("fp8", max(m, 16), n, k, measure=lambda: dense_fp8(max(m, 16), n, k))


def dense(m, n, k):
    sets = [(normal(m, k), normal(n, k).t()) for _ in range(copies(2 * k * (m + n)))]
    return timed([lambda a=a, b=b: torch.mm(a, b) for a, b in sets])


def dense_fp8(m, n, k):
    one = torch.ones((), device=GPU)
    sets = [(normal(m, k, dtype=torch.float8_e4m3fn), normal(n, k, dtype=torch.float8_e4m3fn).t())
            for _ in range(copies(k * (m + n)))]
    return timed([lambda a=a, b=b: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True) for a, b in sets])


def grouped_mm(a, b, ends):
    return getattr(torch.nn.functional, "grouped_mm", torch._grouped_mm)(a, b, offs=ends)


def ends_of(loads):
    return torch.tensor(numpy.cumsum(loads), device=GPU, dtype=torch.int32)


def skewed(experts, rows):
    """Loads by Zipf's law, in multiples of 8."""
    parts = 1 / numpy.arange(1, experts + 1)
    return (parts / parts.sum() * rows // 8 * 8).astype(int)


def grouped(out):
    table = Table(out / "grouped.csv", ["pass", "loads", "experts", "activated", "rows", "largest", "n", "k"])
    for (hidden, ffn, _), counts in ((QWEN, (16, 128)), (DEEPSEEK, (8, 32))):
        for experts in counts:
            for n, k in ((2 * ffn, hidden), (hidden, ffn)):
                for each in (16, 64, 256, 1024, 4096):
                    if each * experts > 65536:
                        continue
                    for name, loads in (("balanced", numpy.full(experts, each)), ("zipf", skewed(experts, each * experts))):
                        add_products(table, name, loads, n, k)
    hidden, ffn, _ = QWEN
    for activated in (1, 2, 4, 8, 16, 32, 64, 128):
        for each in (1, 4, 16):
            table.add("forward", "few", 128, activated, activated * each, each, 2 * ffn, hidden,
                      measure=lambda: few_experts(128, activated, each, 2 * ffn, hidden))


def add_products(table, name, loads, n, k):
    rows, experts = int(loads.sum()), len(loads)
    ends = ends_of(loads)
    x, y = normal(rows, k), normal(rows, n)
    weights = [normal(experts, n, k) for _ in range(2)]
    case = (name, experts, int((loads > 0).sum()), rows, int(loads.max()), n, k)
    table.add("forward", *case, measure=lambda: timed([lambda w=w: grouped_mm(x, w.transpose(-2, -1), ends) for w in weights]))
    table.add("inputs", *case, measure=lambda: timed([lambda w=w: grouped_mm(y, w, ends) for w in weights]))
    table.add("weights", *case, measure=lambda: timed([lambda: grouped_mm(y.t(), x, ends)]))


def few_experts(experts, activated, each, n, k):
    weights = normal(experts, n, k).transpose(-2, -1)
    x = normal(activated * each, k)

    def ends(first):
        loads = numpy.zeros(experts, int)
        loads[[(first + i) % experts for i in range(activated)]] = each
        return ends_of(loads)

    all_ends = [ends(first) for first in range(0, experts, max(1, experts // 16))]
    return timed([lambda e=e: grouped_mm(x, weights, e) for e in all_ends])


# Other kernels.

def attention(out):
    table = Table(out / "attention.csv", ["by", "pass", "batch", "length", "heads", "kv_heads", "qk", "v"])
    backends = {"cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION, "flash2": torch.nn.attention.SDPBackend.FLASH_ATTENTION}
    for batch, length in ((16, 512), (8, 1024), (4, 2048), (1, 4096), (2, 4096), (1, 8192), (1, 16384), (1, 32768)):
        for heads, kv_heads, qk, v in ((32, 4, 128, 128), (128, 128, 192, 128)):
            if batch * length * heads > 1 << 21:
                continue
            case = (batch, length, heads, kv_heads, qk, v)
            for name, backend in backends.items():
                table.add_passes(case, lambda: dict(zip([(name, "forward"), (name, "backward")], scores(backend, *case))))


def scores(backend, batch, length, heads, kv_heads, qk, v):
    """Seconds forward and backward; keys are expanded before, as Megatron's and FlashAttention's kernels need not."""
    q = normal(batch, length, heads, qk).transpose(1, 2).requires_grad_()
    key = normal(batch, length, kv_heads, qk).transpose(1, 2).requires_grad_()
    value = normal(batch, length, kv_heads, v).transpose(1, 2).requires_grad_()
    with torch.nn.attention.sdpa_kernel(backend):
        def forward():
            return torch.nn.functional.scaled_dot_product_attention(q, key, value, is_causal=True, enable_gqa=heads != kv_heads)
        result = forward()
        gradient = torch.randn_like(result)
        return timed_eagerly(forward), timed_eagerly(lambda: torch.autograd.grad(result, (q, key, value), gradient, retain_graph=True))


def memory(out):
    table = Table(out / "memory.csv", ["kernel", "rows", "columns", "bytes"])
    functional = torch.nn.functional
    for rows, columns in ((4096, 2048), (16384, 2048), (32768, 2048), (65536, 2048), (16384, 7168)):
        size = rows * columns
        x, y = normal(rows, columns), normal(rows, columns)
        wide, weight = x.float(), normal(columns)
        order = torch.randperm(rows, device=GPU)
        cases = {"copy": (4, lambda: y.copy_(x)), "add": (6, lambda: torch.add(x, y)),
                 "float to bf16": (6, lambda: wide.to(torch.bfloat16)),
                 "bf16 to fp8": (3, lambda: x.to(torch.float8_e4m3fn)),
                 "silu": (4, lambda: functional.silu(x)),
                 "rms_norm": (4, lambda: functional.rms_norm(x, (columns,), weight)),
                 "layer_norm": (4, lambda: functional.layer_norm(x, (columns,), weight)),
                 "gather rows": (4, lambda: torch.index_select(x, 0, order)),
                 "scatter rows": (4, lambda: y.index_copy_(0, order, x)),
                 "add rows": (6, lambda: y.index_add_(0, order, x))}
        for name, (each, call) in cases.items():
            table.add(name, rows, columns, each * size, measure=lambda: timed([call]))
    size = 1 << 27
    states = [torch.randn(size, device=GPU) for _ in range(2)]
    adam = torch.optim.AdamW([states[0].requires_grad_()], fused=True)
    states[0].grad = states[1]
    table.add("adam", 1, size, 28 * size, measure=lambda: timed_eagerly(adam.step))


def host(out):
    table = Table(out / "host.csv", ["what", "calls"])
    x, small, weight = normal(64, 64), normal(64, 64), normal(64, 64)
    linear = torch.nn.Linear(64, 64, bias=False, device=GPU, dtype=torch.bfloat16)
    experts, ends = normal(8, 64, 64), ends_of(numpy.full(8, 8))
    calls = {"add_": lambda: x.add_(1), "add": lambda: x + small, "mm": lambda: torch.mm(x, weight), "linear with autograd": lambda: linear(small),
             "rms_norm": lambda: torch.nn.functional.rms_norm(x, (64,)), "grouped_mm": lambda: grouped_mm(x, experts, ends)}
    for name, call in calls.items():
        table.add(name, 1000, measure=lambda: issue(call, 1000))
    table.add("kernel of a graph", 1000, measure=lambda: timed([calls["add_"]] * 1000))
    table.add("replay", 1, measure=lambda: issue(graph_of([calls["add_"]] * 10).replay, 100))


def issue(call, count):
    """Seconds of the host per call, the queue never full."""
    for _ in range(20):
        call()
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - begin) / count)
    torch.cuda.synchronize()
    return statistics.median(times)


def clocks():
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader,nounits"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip().replace(", ", " ")


def sustained(out):
    table = Table(out / "sustained.csv", ["work", "at", "MHz W C"])
    a, b, c = (normal(8192, 8192) for _ in range(3))
    x, to_heads, q, kv = normal(8192, 2048), normal(2048, 5120), normal(2, 32, 4096, 128), normal(2, 32, 4096, 128)
    attended, from_heads = normal(8192, 4096), normal(4096, 2048)
    rows, experts, ends = normal(65536, 2048), normal(16, 2048, 1536), ends_of(numpy.full(16, 4096))

    def layer():
        torch.mm(x, to_heads)
        torch.nn.functional.scaled_dot_product_attention(q, kv, kv, is_causal=True)
        torch.mm(attended, from_heads)
        grouped_mm(rows, experts, ends)

    for name, call, count in (("product of 8192", lambda: torch.mm(a, b, out=c), 10), ("layer", layer, 5)):
        graph = graph_of([call] * count)
        elapsed(graph.replay)
        time.sleep(2)
        begin = time.monotonic()
        marks = [0, 0.5, 2, 4, 6]
        while marks:
            seconds = elapsed(graph.replay) / count
            if time.monotonic() - begin >= marks[0]:
                at = marks.pop(0)
                state = "" if at == 0 else clocks()
                table.put(name, at, state, seconds)


@triton.jit
def copy(source, target, size, rounds, BLOCK: tl.constexpr):
    """A block of 1,024 threads per multiprocessor that it holds."""
    step = tl.num_programs(0) * BLOCK
    for _ in range(rounds):
        for start in range(tl.program_id(0) * BLOCK, size, step):
            at = start + tl.arange(0, BLOCK)
            tl.store(target + at, tl.load(source + at, mask=at < size), mask=at < size)


def contention(out):
    table = Table(out / "contention.csv", ["sms", "m", "n", "k", "what"])
    size = 1 << 26  # of four bytes
    source, target = torch.empty(size, device=GPU), torch.empty(size, device=GPU)
    side = torch.cuda.Stream()
    for m, n, k in ((8192, 8192, 8192), (8192, 4096, 7168), (4096, 5120, 2048), (0, 0, 0)):
        x, y = (normal(m, k), normal(k, n)) if m else (normal(65536, 2048), normal(65536, 2048))
        work = (lambda: torch.mm(x, y)) if m else (lambda: torch.add(x, y))
        what, by_itself = "product" if m else "memory", timed([work])
        table.put(0, m, n, k, f"{what} by itself", by_itself)
        for sms in (0, 4, 8, 16, 20, 32, 64):
            def run_copy(rounds):
                if sms:
                    copy[(sms,)](source, target, size, rounds, BLOCK=8192, num_warps=32)
            rounds = math.ceil(40 * by_itself / max(1e-4, timed_eagerly(lambda: run_copy(1))))
            copied = timed_eagerly(lambda: run_copy(rounds), 3)
            begin, end, first, last = (torch.cuda.Event(enable_timing=True) for _ in range(4))
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                begin.record()
                run_copy(rounds)
                end.record()
            time.sleep(2e-4)
            first.record()
            for _ in range(20):
                work()
            last.record()
            torch.cuda.synchronize()
            table.put(sms, m, n, k, what, first.elapsed_time(last) * 1e-3 / 20)
            if sms:
                table.put(sms, m, n, k, "copy by itself", copied)
                table.put(sms, m, n, k, "copy next to it", begin.elapsed_time(end) * 1e-3)


# A whole model.

def model(out, layers=4, batch=2, length=4096):
    import transformers
    table = Table(out / "model.csv", ["what", "layers", "batch", "length"])
    config = transformers.Qwen3MoeConfig(
        num_hidden_layers=layers, hidden_size=2048, moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8,
        num_attention_heads=32, num_key_value_heads=4, head_dim=128, vocab_size=151936, max_position_embeddings=length,
        norm_topk_prob=True, decoder_sparse_step=1, use_cache=False)
    config._attn_implementation = "sdpa"
    config._experts_implementation = "grouped_mm"
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with GPU:
        network = transformers.Qwen3MoeForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    print("  experts by", getattr(network.config, "_experts_implementation", "?"), "attention by", network.config._attn_implementation)
    adam = torch.optim.AdamW(network.parameters(), fused=True)
    tokens = torch.randint(0, config.vocab_size, (batch, length), device=GPU)
    choices = []

    def keep(_, __, result):
        parts = result if isinstance(result, tuple) else (result,)
        found = [part for part in parts if not part.is_floating_point()] or [parts[0].topk(8, -1).indices]
        choices.append(found[0].reshape(-1, 8).cpu().numpy())

    hooks = [layer.mlp.gate.register_forward_hook(keep) for layer in network.model.layers]
    network(tokens)
    numpy.save(out / "model.choices.npy", numpy.stack(choices).astype(numpy.int16))
    for hook in hooks:
        hook.remove()

    def passes():
        network(tokens, labels=tokens).loss.backward()

    def iteration():
        passes()
        adam.step()
        adam.zero_grad()

    table.add("iteration", layers, batch, length, measure=lambda: timed_eagerly(iteration, 5))
    with torch.no_grad():
        table.add("forward", layers, batch, length, measure=lambda: timed_eagerly(lambda: network(tokens), 5))
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        iteration()
        torch.cuda.synchronize()
    profile.export_chrome_trace(str(out / "model.trace.json.gz"))


SECTIONS = [gemm, grouped, attention, memory, host, sustained, contention, model]


def main(arguments):
    names = [section.__name__ for section in SECTIONS]
    unknown = set(arguments[1:]) - set(names)
    if not arguments or arguments[0].startswith("-") or unknown:
        sys.exit(f"gpu_kernels.py: no section '{min(unknown)}'\nhint: one of {', '.join(names)}" if unknown else __doc__)
    out = pathlib.Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
    for section in SECTIONS:
        if len(arguments) > 1 and section.__name__ not in arguments[1:]:
            continue
        begin = time.monotonic()
        try:
            section(out)
            state = "done"
        except Exception as error:  # pylint: disable=broad-except
            state = f"failed: {str(error).splitlines()[0][:300]}"
        torch.cuda.empty_cache()
        print(f"{section.__name__}: {state}, {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
