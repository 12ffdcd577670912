// SPDX-License-Identifier: Apache-2.0
// What one rank does in a step, down to buffers and rows: compiled from the plan once, executed by
// any device as often as wanted. No list in it depends on when messages arrive, because a GPU
// cannot look for rows one by one, and lists can be proven before they run. What of a whole
// iteration is compared with the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "realhw/core/row_format.h"
#include "realhw/program/dense_calls.h"
#include "realhw/program/place.h"
#include "sim/model/kernel.h"
#include "sim/model/op_kind.h"
#include "sim/model/parameters.h"
#include "sim/plan/plan.h"
#include "sim/planner/parallel/layer_layout.h"
#include "sim/saved/held_iteration.h"

namespace moesim {

/// All of float32. Rows are those of the rank between blocks; losses, of its whole replica.
struct IterationResults {
  /// What enters a block of a microbatch, or the gradient by it; of the head, layer is
  /// model.layers.
  struct Values {
    int microbatch = 0, layer = 0;
    BlockKind block = BlockKind::attention;
    Pass pass = Pass::forward;
    Place at;
  };
  struct Losses {
    int microbatch = 0;
    Place at;
  };
  /// Elements from the first to one past the last of a part or an expert: all, or the rank's shard.
  struct Dense {
    StagePart part;
    Place weights, gradients;
    std::pair<std::int64_t, std::int64_t> summed, updated;
  };
  struct Expert {
    int layer = 0;
    ExpertId expert;
    Place weights, gradients;
    std::pair<std::int64_t, std::int64_t> summed, updated;
  };

  HeldPlace place;
  std::vector<Values> values;
  std::vector<Losses> losses;
  std::vector<Dense> dense;
  std::vector<Expert> experts;
};

/// Memory of a device, allocated once. Elements of one format are dense in it; messages may have
/// bytes in addition to their elements.
struct Buffer {
  std::string name;  // "layer 0 forward input", "op 12 received"
  std::int64_t bytes = 0;
  RowFormat format = RowFormat::float32;
};

/// Result row i is the sum of weight x row over the terms first[i] to first[i + 1]; without terms
/// it is zeros. Sums are float32 in the order of the terms, rounded once. It packs messages
/// (permute, dedup-pack), gathers expert inputs (sort) and adds up results (weighted reduce).
struct RowSums {
  struct Term {
    Place from;
    float weight = 1;
  };
  std::int64_t width = 0;            // elements of every row
  std::vector<Place> to;             // all in one buffer
  std::vector<std::uint32_t> first;  // to.size() + 1, ascending
  std::vector<Term> terms;
};

/// One product per group, row-major, of the buffers' formats, accumulated in float32.
struct GroupedProduct {
  enum class Kind {
    plain,         // c[m x n] = a[m x k] b[k x n]
    transposed_b,  // c[m x n] = a[m x k] b^T, b[n x k]
    outer          // c[k x n] += a^T b, a[m x k], b[m x n]
  };
  struct Group {
    std::int64_t m = 0;  // > 0
    Place a, b, c;
  };
  Kind kind = Kind::plain;
  std::int64_t n = 0, k = 0;
  std::vector<Group> groups;
};

/// Rows of an expert's activation (ExpertShape): out[ffn] of h[up], or its gradient.
struct Activation {
  struct Range {
    std::int64_t rows = 0;
    Place h, out;
    // Unused in the forward pass. Read: the gradient by `out`; written: the gradient by `h`.
    Place h_gradient, out_gradient;
  };
  bool gradient = false;
  std::int64_t ffn = 0;
  bool gated = false;
  std::vector<Range> ranges;
};

/// Bytes that stay on the rank: its message to itself.
struct LocalCopy {
  Place from, to;
  std::int64_t bytes = 0;
};

/// Bytes without numbers (fill_pattern): written before a message goes, or compared after it came.
/// Only in verified runs.
struct Pattern {
  struct Range {
    GpuId from, to;               // of the message
    std::int64_t in_message = 0;  // offset from which the pattern counts
    Place at;
    std::int64_t bytes = 0;
  };
  bool compare = false;
  OpId op;
  std::vector<Range> ranges;
};

/// Looks for infinities and NaN among the elements that an op made. Only in verified runs.
struct FiniteCheck {
  struct Range {
    Place at;
    std::int64_t elements = 0;
  };
  OpId op;
  std::vector<Range> ranges;
};

/// Work of a shape on data without meaning: attention, gate, shared experts, relays, codecs.
struct Scratch {
  Kernel kernel;  // GroupedGemm or MemoryBound
};

using Call = std::variant<RowSums, GroupedProduct, Activation, LocalCopy, Pattern, FiniteCheck,
                          Scratch, HostWork, DenseCall>;

/// Whether a call only proves something. Measured runs leave it out, because real training has
/// none.
inline bool only_verifies(const Call& call) {
  return std::holds_alternative<Pattern>(call) || std::holds_alternative<FiniteCheck>(call);
}

/// What this rank sends to, or receives from, one other rank in an exchange: one range of a buffer.
struct Message {
  GpuId peer;
  Place at;
  std::int64_t bytes = 0;  // > 0
};

/// A part of an exchange that begins when the messages of the part before have come and its calls
/// are done: rings pass on what has just arrived.
struct Round {
  std::vector<Call> before;
  std::vector<Message> sends, receives;  // ascending by peer
  std::vector<Call> after;
};

/// What the rank does in one op of the plan.
struct RankStep {
  OpId op;
  Stream stream = Stream::compute;
  std::vector<OpId> waits;   // ops of this rank on other streams that end before it, ascending
  std::vector<Call> before;  // kernels; of an exchange the packing of what it sends
  std::vector<Message> sends, receives;  // of an exchange, ascending by peer
  std::vector<Call> after;               // of an exchange: what must follow its messages; checks
  std::vector<Round> more = {};          // of an exchange: its further rounds

  const std::vector<Message>& sends_of(std::size_t round) const {
    return round == 0 ? sends : more[round - 1].sends;
  }
  const std::vector<Message>& receives_of(std::size_t round) const {
    return round == 0 ? receives : more[round - 1].receives;
  }
  const std::vector<Call>& after_of(std::size_t round) const {
    return round == 0 ? after : more[round - 1].after;
  }
  /// What follows the messages of the last round.
  const std::vector<Call>& last_calls() const { return after_of(more.size()); }
};

/// Values that buffers hold when a step starts.
struct InitialValues {
  Place at;
  std::vector<float> values;  // converted to the buffer's format
};

/// What the rank holds of a token once the step has ended: a sum of weighted rows, and the choices
/// that it covers.
struct TokenResult {
  TokenId token;
  Choices choices = 0;
  std::vector<RowSums::Term> terms;
};

/// The gradients of one slot's matrices, row-major float32: W1 [hidden x up], W2 [ffn x hidden].
struct SlotGradients {
  ExpertId expert;
  Place w1, w2;
};

/// What is compared with the reference after a step.
struct LayerResults {
  std::vector<TokenResult> outputs, input_gradients;  // of the rank's own tokens, ascending
  std::vector<SlotGradients> slots;                   // in the order of the rank's slots
};

struct RankProgram {
  GpuId rank;
  RowFormat matrices = RowFormat::float32;  // CompileOptions
  std::vector<Buffer> buffers;
  std::vector<InitialValues> initial;  // token vectors, output gradients, expert parameters
  std::vector<BufferId> zeroed;        // filled with zeros before every run (weight gradients)
  std::vector<RankStep> steps;         // ascending by op: the order on every stream
  std::vector<LayerResults> layers;    // by index of RealStep::layers; none of an iteration
  std::optional<IterationResults> iteration = {};

  const Buffer& operator[](BufferId id) const { return buffers[id.index()]; }
};

}  // namespace moesim
