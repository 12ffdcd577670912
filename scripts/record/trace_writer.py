# SPDX-License-Identifier: Apache-2.0
"""Writes the native trace form: a trace.json and one folder of .npy arrays per recorded step."""

import json
import os

import numpy as np


class TraceWriter:
    """A trace that is readable after every call: files get their name only when complete."""

    def __init__(self, path, header):
        """Creates the folder `path` (FileExistsError if there is one) and its trace.json."""
        os.makedirs(path)
        self.path, self.header = path, header
        self.write_header()

    def write_header(self):
        """Replaces trace.json by the present header."""
        temporary = os.path.join(self.path, ".trace.json.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(self.header, file, indent=2)
            file.write("\n")
        os.replace(temporary, os.path.join(self.path, "trace.json"))

    def append(self, step, ids, weights, sequence_lengths):
        """Adds one step: ids and weights [layers, tokens, top_k], lengths [sequences]."""
        dtype = np.uint8 if self.header["experts"] <= 256 else np.uint16
        temporary = os.path.join(self.path, f".step-{step:08d}.tmp")
        os.makedirs(temporary)
        np.save(os.path.join(temporary, "ids.npy"), ids.astype(dtype))
        np.save(os.path.join(temporary, "gate_weights.npy"), weights.astype(np.float16))
        np.save(os.path.join(temporary, "sequence_lengths.npy"),
                np.asarray(sequence_lengths, dtype=np.int32))
        os.rename(temporary, os.path.join(self.path, f"step-{step:08d}"))
