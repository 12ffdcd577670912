# SPDX-License-Identifier: Apache-2.0
"""Parts of record_trace.py: the corpus, the tokenizer and the model."""
