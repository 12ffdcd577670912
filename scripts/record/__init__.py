# SPDX-License-Identifier: Apache-2.0
"""Parts of record_trace.py: the corpus, the tokenizer, the model and the trace writer."""
