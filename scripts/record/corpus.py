# SPDX-License-Identifier: Apache-2.0
"""The training text: files of installed Debian packages, one domain per package."""

import gzip
import hashlib
import os
import random
import re
import subprocess

import numpy as np

from . import bpe

# domain: (package, pattern of its files). All of them are in Debian 12 main.
DOMAINS = {
    "law": ("base-files", r"^/usr/share/common-licenses/"),
    "english": ("fortunes", r"^/usr/share/games/fortunes/[a-z-]+$"),
    "german": ("fortunes-de", r"^/usr/share/games/fortunes/de/[a-z-]+$"),
    "french": ("manpages-fr-dev", r"^/usr/share/man/fr/.*\.gz$"),
    "manual": ("manpages-dev", r"^/usr/share/man/man[0-9]/.*\.gz$"),
    "python": ("libpython3.11-stdlib", r"\.py$"),
    "c": ("linux-libc-dev", r"\.h$"),
    "tables": ("miscfiles", r"^/usr/share/misc/.*\.gz$"),
}


class CorpusError(Exception):
    """A package of the corpus is missing or empty; the message says what to install."""


def package_version(package):
    """Returns the installed version of a Debian package, or None."""
    try:
        query = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package]
        status = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
    except FileNotFoundError:
        raise CorpusError("dpkg-query not found: the corpus is text of Debian packages") from None
    return status[1] if status[:1] == ["installed"] else None


def check_packages():
    """Raises CorpusError naming every missing package at once."""
    missing = [package for package, _ in DOMAINS.values() if package_version(package) is None]
    if missing:
        raise CorpusError("packages of the corpus are missing: apt-get install "
                          + " ".join(missing))


def read_documents(package, pattern, limit, rng):
    """Returns [bytes] of the package's matching files in shuffled order, at most `limit` bytes."""
    listing = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=True)
    paths = [p for p in sorted(listing.stdout.splitlines()) if re.search(pattern, p)]
    paths = [p for p in paths if os.path.isfile(p) and not os.path.islink(p)]
    rng.shuffle(paths)
    documents, size = [], 0
    for path in paths:
        if size >= limit:
            break
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            documents.append(file.read(limit - size))
        size += len(documents[-1])
    if not documents:
        raise CorpusError(f"{package} is installed but its text is not there (files matching "
                          f"{pattern}): reinstall it without dpkg path-exclude")
    return documents


class Corpus:
    """Token sequences per domain, each of `length` + 1 ids from one document, in shuffled order."""

    def __init__(self, length, vocabulary, limit, seed):
        check_packages()
        self.facts, self.sequences = {}, {}
        texts = {}
        for name, (package, pattern) in DOMAINS.items():
            texts[name] = read_documents(package, pattern, limit, random.Random(f"{seed} {name}"))
        merges = bpe.train([d for documents in texts.values() for d in documents], vocabulary)
        self.vocabulary = 256 + len(merges)
        cache = {}
        for name, documents in texts.items():
            ids = [bpe.encode(document, merges, cache) for document in documents]
            pieces = [doc[i : i + length + 1] for doc in ids
                      for i in range(0, len(doc) - length, length)]
            if not pieces:
                raise CorpusError(f"domain {name}: no document has {length + 1} tokens")
            random.Random(f"{seed} {name} pieces").shuffle(pieces)
            self.sequences[name] = np.array(pieces, dtype=np.int64)
            package = DOMAINS[name][0]
            self.facts[name] = {
                "package": package, "version": package_version(package),
                "documents": len(documents), "bytes": sum(map(len, documents)),
                "tokens": sum(map(len, ids)), "sequences": len(pieces),
                "sha256": hashlib.sha256(b"".join(documents)).hexdigest()}
        self.rng_ = random.Random(f"{seed} batches")
        self.next_ = dict.fromkeys(texts, 0)

    def batch(self, sequences):
        """Returns (ids [sequences, length + 1], domain names), the domains drawn evenly."""
        names = [self.rng_.choice(list(self.sequences)) for _ in range(sequences)]
        rows = []
        for name in names:
            pieces = self.sequences[name]
            rows.append(pieces[self.next_[name] % len(pieces)])
            self.next_[name] += 1
        return np.stack(rows), names
