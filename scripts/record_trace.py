#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small MoE language model and records its expert choices while it learns.

The model is a decoder-only transformer with a softmax top-k gate and a load-balancing loss, trained
by backpropagation on text that Debian packages carry. Forward hooks on the routers record expert
ids and gate weights of whole training batches; no text is recorded.

Needs PyTorch and the packages of the corpus:

  apt-get install python3-torch libopenblas0-pthread base-files fortunes fortunes-de \\
      libpython3.11-stdlib linux-libc-dev manpages-dev manpages-fr-dev miscfiles

(OpenBLAS is optional; with it matrices multiply about twenty times faster.) The result is a trace
in the native form, see docs/trace-format.md. Exit codes: 0 done, 2 bad input or a missing package,
130 interrupted (the steps recorded so far are complete).
"""

import argparse
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "python"))  # the package moesim

SCRIPT = "scripts/record_trace.py"
LICENCE = ("Only expert ids, gate weights and sequence lengths are recorded; no text and no model "
           "weights. The trace is under Apache-2.0, like the project.")


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", required=True, metavar="DIR", help="trace folder to create; must not exist")
    add("--name", help="name in trace.json (default: last part of --out)")
    add("--model-name", default="tiny-moe", help="model in trace.json (default: %(default)s)")
    for name, value, text in [
            ("steps", 1200, "training steps"),
            ("record", 20, "steps to record: 1, 2, 4, ... then evenly up to the last"),
            ("seed", 1, "seed of weights, documents and batches"),
            ("layers", 4, "transformer layers, each with experts"),
            ("experts", 32, "routed experts per layer"),
            ("top-k", 4, "experts per token"),
            ("hidden", 128, "width of a token"),
            ("ffn", 128, "inner width of an expert"),
            ("heads", 4, "attention heads"),
            ("vocabulary", 2048, "ids of the byte-pair tokenizer, at least 256"),
            ("sequences", 32, "sequences per step"),
            ("length", 128, "tokens per sequence"),
            ("corpus-bytes", 3000000, "text per domain at most"),
            ("threads", 1, "CPU threads")]:
        add(f"--{name}", type=int, default=value, help=f"{text} (default: %(default)s)")
    add("--learning-rate", type=float, default=2e-3, help="peak rate (default: %(default)s)")
    add("--balance", type=float, default=0.01,
        help="weight of the load-balancing loss (default: %(default)s)")
    add("--device", default="auto", help="cpu, cuda or auto: a GPU if there is one")
    args = parser.parse_args(argv)
    for name, value in vars(args).items():
        if isinstance(value, int) and name != "seed" and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be positive, not {value}")
    if args.top_k > args.experts:
        parser.error(f"--top-k {args.top_k} exceeds --experts {args.experts}")
    if args.hidden % args.heads:
        parser.error(f"--hidden {args.hidden} is not a multiple of --heads {args.heads}")
    if args.record > args.steps:
        parser.error(f"--record {args.record} exceeds --steps {args.steps}")
    if args.vocabulary < 256 or args.experts > 65536:
        parser.error("--vocabulary must be at least 256 and --experts at most 65536")
    return args


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def recorded_steps(steps, count):
    """Returns `count` of the steps 1..steps: powers of two while denser than even spacing."""
    chosen = [1]
    while len(chosen) < count - 1 and chosen[-1] <= (steps - chosen[-1]) / (count - len(chosen)):
        chosen.append(2 * chosen[-1])
    start, left = chosen[-1], count - len(chosen)
    return chosen + [start + (steps - start) * i // left for i in range(1, left + 1)]


def learning_rate(step, args):
    """Linear warm-up over 5 % of training, then a cosine down to a tenth of the peak."""
    warm = max(1, args.steps // 20)
    if step <= warm:
        return args.learning_rate * step / warm
    progress = (step - warm) / max(1, args.steps - warm)
    return args.learning_rate * (0.55 + 0.45 * math.cos(math.pi * progress))


def provenance(args, argv, corpus, parameters, device, package_version):
    import torch
    names = ["python3-torch", "libopenblas0-pthread"]
    return {
        "recorder": SCRIPT,
        "command": " ".join([SCRIPT, *argv]),
        "licence": LICENCE,
        "step": "a recorded step is the whole training batch of that step (from 1), routed by the "
                "weights before its update",
        "model": {
            "parameters": parameters, "vocabulary": corpus.vocabulary, "dense_layers": 0,
            "shared_experts": 0, "expert": "SwiGLU, 3 matrices, no bias",
            "gate": "softmax over all experts, top-k, weights renormalised over the chosen",
            "attention": "causal, learned positions", "dropped_tokens": 0,
            **{key: getattr(args, key) for key in
               ("layers", "hidden", "ffn", "heads", "experts", "top_k")}},
        "training": {
            "optimizer": "AdamW, betas 0.9 0.95, weight decay 0.1, gradient norm clipped at 1",
            "schedule": "linear warm-up over 5 % of the steps, cosine to a tenth",
            **{key: getattr(args, key) for key in
               ("steps", "sequences", "length", "learning_rate", "balance", "seed", "threads")}},
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "packages": {name: package_version(name) for name in names},
        "corpus": corpus.facts,
        "recorded": []}


def train(args, corpus, model, device, writer):
    """Trains for args.steps steps and records some of them; returns nothing."""
    import torch
    from moesim import Recorder, watch_huggingface
    recorder = Recorder(writer, keep=set(recorded_steps(args.steps, args.record)).__contains__)
    recorder.number = 1
    watch_huggingface(model, recorder)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(1, args.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        rows, domains = corpus.batch(args.sequences)
        batch = torch.from_numpy(rows).to(device)
        logits, balance = model(batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        (loss + args.balance * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if sys.stderr.isatty():
            print(f"\rstep {step}/{args.steps}  loss {loss.item():.3f} ", end="", file=sys.stderr)
        ids = recorder.step([args.length] * len(domains))
        if ids is not None:
            report(writer, ids, step, loss.item(), balance.item() / args.layers, domains)
    recorder.close()


def report(writer, ids, step, loss, balance, domains):
    """Adds the loss of a recorded step to the provenance, and prints one line."""
    import numpy as np
    writer.header["provenance"]["recorded"].append({
        "step": step, "loss": round(loss, 4), "balance_loss": round(balance, 4),
        "domains": " ".join(domains)})
    writer.write_header()
    experts = writer.header["experts"]
    skew = [np.bincount(layer.ravel(), minlength=experts).max() * experts / layer.size
            for layer in ids]
    clear = "\r" if sys.stderr.isatty() else ""
    print(f"{clear}recorded step {step}: loss {loss:.3f}, max/mean expert load per layer "
          + " ".join(f"{x:.2f}" for x in skew), flush=True)


def main(argv):
    args = parse_arguments(argv)
    if os.path.exists(args.out):
        fail(f"{args.out} exists: choose another --out or remove it")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(args.threads)  # read when the libraries are loaded
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        import numpy  # noqa: F401
        import torch
    except ImportError as error:
        fail(f"{error.name} not found: apt-get install python3-torch, and run this with "
             "/usr/bin/python3")
    from record.corpus import Corpus, CorpusError, package_version
    from record.model import MoeLanguageModel
    from moesim import TraceWriter

    device = args.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    elif device == "cuda" and not torch.cuda.is_available():
        fail("--device cuda: PyTorch sees no GPU")
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True, warn_only=device == "cuda")
    try:
        corpus = Corpus(args.length, args.vocabulary, args.corpus_bytes, args.seed)
    except CorpusError as error:
        fail(error)
    model = MoeLanguageModel(corpus.vocabulary, args.length, args.layers, args.hidden, args.heads,
                             args.ffn, args.experts, args.top_k).to(device)
    parameters = sum(p.numel() for p in model.parameters())
    writer = TraceWriter(args.out, experts=args.experts, top_k=args.top_k, layers=range(args.layers), name=args.name,
                         model=args.model_name,
                         provenance=provenance(args, argv, corpus, parameters, device, package_version))
    try:
        train(args, corpus, model, device, writer)
    except KeyboardInterrupt:
        print(f"\ninterrupted: {args.out} holds the steps recorded so far", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
