// SPDX-License-Identifier: Apache-2.0
// What is said about one pass of a serving engine: its batch, and how the engine runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/gemm_types.h"
#include "sim/model/moe_model.h"
#include "sim/model/serving_batch.h"

namespace moesim {

/// What runs while tokens travel: nothing, the other halves or thirds of the batch, or the last
/// product of the experts while their results travel.
enum class ServingOverlap { none, two_batch, three_batch, single_batch };
extern const std::vector<std::string> serving_overlap_names;

/// Types of the KV cache.
extern const std::vector<std::string> kv_type_names;

/// What one part of a pass runs: the model, or what drafts the next tokens behind it, its layer of
/// multi-token prediction with the head. The first draft of a sequence follows from all of its new
/// tokens, each further one from the draft before (vLLM's EagleProposer.propose, TensorRT-LLM's
/// MTPEagleWorker.forward).
enum class PartRuns { model, first_draft, next_draft };

/// A part of a pass: sequences, and what runs on them.
struct BatchPart {
  PartRuns runs = PartRuns::model;
  int half = 0, halves = 1;  // or thirds of the sequences
  int draft = 0;             // number of a draft of each sequence, from 0
  bool drafts() const { return runs != PartRuns::model; }
  bool operator==(const BatchPart&) const = default;
};

/// Keys of `serving` in a scenario; docs/serving.md says what each means.
struct ServingSpec {
  ServingBatch batch;   // of each rank of attention data parallelism, or one list that all have
  int drafts = 0;       // tokens of each decoding sequence that are verified next to its own
  double accepted = 0;  // drafts that a sequence keeps in a pass, on average
  /// Of products in `quantized`; stored_types: of routed experts.
  DataType weights = DataType::bf16;
  std::optional<GemmParts> quantized = {};  // none: all but the gate and the head
  bool states_weights = false;              // else they are those of the model's checkpoint
  DataType kv = DataType::bf16;
  bool graphs = true;                  // CUDA graphs hide the host
  std::vector<std::int64_t> pad = {};  // tokens of a rank that graphs were captured for, ascending
  ServingOverlap overlap = ServingOverlap::none;
  OverlapFrom overlap_from;
  double kv_fraction = 0.9;  // of a GPU's memory that weights and cache may take
  /// Ranks that have sequences; the GPUs behind them compute experts alone. 0: all do both.
  int attention_ranks = 0;
  int dcp = 1;  // GPUs of a tensor group that share the keys of a sequence
  bool operator==(const ServingSpec&) const = default;

  /// Parts that take turns in a batch that is split.
  int parts_of_overlap() const {
    return overlap == ServingOverlap::two_batch     ? 2
           : overlap == ServingOverlap::three_batch ? 3
                                                    : 1;
  }
  /// The same of this batch: 1 if no rank has two sequences, or `overlap_from` is not reached.
  int turns() const;
  /// The largest number of sequences, and the least of tokens, of a rank that attends.
  std::int64_t most_sequences() const;
  std::int64_t least_tokens() const;
  /// Whether the pass is a CUDA graph: none is captured for more tokens than the last of `pad`.
  bool in_graph() const;
  /// Whether a rank of the grid has sequences.
  bool attends(int rank) const { return attention_ranks == 0 || rank < attention_ranks; }
  /// How many of so many do.
  int attending(int ranks) const { return attention_ranks == 0 ? ranks : attention_ranks; }
  /// The list of one rank of attention data parallelism.
  const std::vector<SequenceStep>& of_rank(int rank) const;
};

/// Whether some sequence, or every one, decodes: it has a context and few new tokens (see
/// decodes()).
bool any_decodes(const ServingBatch& batch);
bool all_decode(const ServingBatch& batch);

/// Sums over `ranks` ranks of attention data parallelism.
std::int64_t tokens_of(const ServingSpec& spec, int ranks);
std::int64_t sequences_of(const ServingSpec& spec, int ranks);

/// The parts of a pass in their order. Without a layer that drafts its drafts are given.
std::vector<BatchPart> parts_of(const ServingSpec& spec, bool drafts);

/// What a rank runs in a part, with what graphs add.
std::vector<SequenceStep> list_of(const ServingSpec& spec, int rank, const BatchPart& part);

/// The i-th of `parts` parts of a list, with as equal numbers of tokens as whole sequences allow:
/// sequences are dealt out in their order.
std::vector<SequenceStep> part_of(const std::vector<SequenceStep>& list, int i, int parts);

/// A list as graphs run it: with sequences of one token more, up to the next size that was
/// captured; as it is if it is larger than all of them, or has a prefill.
std::vector<SequenceStep> padded(std::vector<SequenceStep> list,
                                 const std::vector<std::int64_t>& sizes);

}  // namespace moesim
