# SPDX-License-Identifier: Apache-2.0
"""A small decoder-only language model with a mixture of experts in every layer."""

import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale


class Attention(nn.Module):
    """Causal multi-head self-attention over [sequences, length, hidden]."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x):
        b, t, h = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (h // self.heads) ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, h))


class Router(nn.Module):
    """Softmax gate over all experts, top-k, weights renormalised over the k chosen.

    Returns (ids [tokens, k] by falling weight, weights [tokens, k], balance loss). The loss is
    experts * sum_e(share of choices of e * mean probability of e), 1 for uniform routing
    (Switch Transformers, arXiv 2101.03961, equation 4).
    """

    def __init__(self, hidden, experts, top_k):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(hidden, experts, bias=False)

    def forward(self, x):
        probabilities = self.gate(x).softmax(-1)
        weights, ids = probabilities.topk(self.top_k)
        share = torch.bincount(ids.flatten(), minlength=probabilities.shape[1]) / ids.numel()
        balance = probabilities.shape[1] * (share * probabilities.mean(0)).sum()
        return ids, weights / weights.sum(-1, keepdim=True), balance


class Moe(nn.Module):
    """SwiGLU experts; every token goes to its top-k, none is dropped."""

    def __init__(self, hidden, ffn, experts, top_k):
        super().__init__()
        self.router = Router(hidden, experts, top_k)
        self.up = nn.Parameter(torch.empty(experts, hidden, 2 * ffn))
        self.down = nn.Parameter(torch.empty(experts, ffn, hidden))

    def forward(self, x):
        ids, weights, balance = self.router(x)
        order = ids.flatten().argsort(stable=True)
        counts = torch.bincount(ids.flatten(), minlength=len(self.up)).tolist()
        rows = x[order // ids.shape[1]].split(counts)
        outputs = []
        for row, up, down in zip(rows, self.up.unbind(), self.down.unbind()):
            gate, value = (row @ up).chunk(2, -1)
            outputs.append((F.silu(gate) * value) @ down)
        copies = torch.cat(outputs)[order.argsort()].view(*ids.shape, -1)
        return (copies * weights.unsqueeze(-1)).sum(1), balance


class Layer(nn.Module):
    def __init__(self, hidden, heads, ffn, experts, top_k):
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(hidden), RmsNorm(hidden)
        self.attention = Attention(hidden, heads)
        self.moe = Moe(hidden, ffn, experts, top_k)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y, balance = self.moe(self.norm2(x).flatten(0, 1))
        return x + y.view_as(x), balance


class MoeLanguageModel(nn.Module):
    """Maps ids [sequences, length] to logits [sequences, length, vocabulary] and the balance loss
    summed over layers."""

    def __init__(self, vocabulary, length, layers, hidden, heads, ffn, experts, top_k):
        super().__init__()
        self.token = nn.Embedding(vocabulary, hidden)
        self.position = nn.Embedding(length, hidden)
        self.layers = nn.ModuleList(
            Layer(hidden, heads, ffn, experts, top_k) for _ in range(layers))
        self.norm = RmsNorm(hidden)
        for name, weight in self.named_parameters():
            if "norm" not in name:
                last = name.endswith(("out.weight", "down"))
                nn.init.normal_(weight, std=0.02 / (2 * layers) ** 0.5 if last else 0.02)

    def forward(self, ids):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        balance = x.new_zeros(())
        for layer in self.layers:
            x, layer_balance = layer(x)
            balance = balance + layer_balance
        return F.linear(self.norm(x), self.token.weight), balance
