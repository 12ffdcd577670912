# SPDX-License-Identifier: Apache-2.0
"""A byte-level BPE tokenizer, small enough to train in seconds on the corpus itself."""

import collections
import re

WORD = re.compile(rb" ?[A-Za-z\x80-\xff]+| ?[0-9]+| ?[^\sA-Za-z0-9\x80-\xff]+|\s+")


def merge_pair(word, pair, merged):
    """Returns `word` (a tuple of ids) with every occurrence of `pair` replaced by `merged`."""
    out, i = [], 0
    while i < len(word):
        if word[i : i + 2] == pair:
            out.append(merged)
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def train(documents, vocabulary):
    """Learns merges until there are `vocabulary` ids (the 256 bytes first); returns {pair: id}.

    The most frequent pair is merged first, ties by the lowest pair. Words longer than 32 bytes and
    words seen once teach nothing and are left out.
    """
    words = collections.Counter(word for text in documents for word in WORD.findall(text))
    words = [[tuple(w), n] for w, n in sorted(words.items()) if 1 < n and len(w) <= 32]
    counts, where = collections.Counter(), collections.defaultdict(set)

    def add(index, sign):
        word, n = words[index]
        for pair in zip(word, word[1:]):
            counts[pair] += sign * n
            if sign > 0:
                where[pair].add(index)

    for index in range(len(words)):
        add(index, +1)
    merges = {}
    for merged in range(256, vocabulary):
        pair, count = max(counts.items(), key=lambda item: (item[1], -item[0][0], -item[0][1]))
        if count < 2:
            break
        merges[pair] = merged
        for index in sorted(where.pop(pair)):
            add(index, -1)
            words[index][0] = merge_pair(words[index][0], pair, merged)
            add(index, +1)
        del counts[pair]
    return merges


def encode(text, merges, cache):
    """Returns the list of ids of `text` (bytes); `cache` remembers words between calls."""
    ids = []
    for word in WORD.findall(text):
        if word not in cache:
            cache[word] = encode_word(tuple(word), merges)
        ids.extend(cache[word])
    return ids


def encode_word(word, merges):
    """Applies the merges to one word in the order in which they were learned."""
    while len(word) > 1:
        pair = min(zip(word, word[1:]), key=lambda p: merges.get(p, len(merges) + 256))
        if pair not in merges:
            break
        word = merge_pair(word, pair, merges[pair])
    return word
