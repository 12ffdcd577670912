// SPDX-License-Identifier: Apache-2.0
// What a GPU computes, as shapes. Plans hold shapes and no times, so that one plan runs on any GPU
// and on real hardware; a cost model turns shapes into time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/types.h"
#include "sim/model/moe_model.h"
#include "sim/model/op_kind.h"

namespace moesim {

/// Products that are a part of those of one kernel: the kernel computes tiles of rows as they
/// arrive, so that others travel meanwhile (fused layers, docs/pipelines.md). All waves of a kernel
/// together take the time of its whole products; a wave has its part of the tiles.
struct Wave {
  std::vector<std::int64_t> rows;     // of each group in the whole kernel
  std::int64_t tile = 1;              // rows of a tile
  std::int64_t fill = 1;              // to a multiple of which every group fills its last one
  std::int64_t tiles = 0, of = 0;     // of this wave, and of the whole kernel
  DataType weights = DataType::bf16;  // as the kernel reads them
  bool starts = false;                // the kernel, whose launch only this wave pays
  bool operator==(const Wave&) const = default;
};

/// One GEMM per group: [m_g x k] times [k x n]; groups with m = 0 cost nothing.
struct GroupedGemm {
  std::vector<std::int64_t> m;  // rows of each group (tokens of each local expert)
  std::int64_t n = 0;
  std::int64_t k = 0;
  DataType type = DataType::bf16;
  std::optional<Wave> wave = {};
  bool operator==(const GroupedGemm&) const = default;
};

/// What the kernels of one attention have in common.
struct AttentionHeads {
  int heads = 0;     // of queries, on one GPU
  int kv_heads = 0;  // of keys and values: fewer for grouped queries
  int qk_width = 0;  // per head, of a query and of a key
  int v_width = 0;   // per head, of a value; 0: scores are all that is computed
  DataType type = DataType::bf16;
  Pass pass = Pass::forward;
  /// Values are the first v_width elements of the keys: MLA in its absorbed form (arXiv 2405.04434,
  /// section 2.1), whose one key per token is its latent vector and the part with the position.
  bool latent = false;
  bool operator==(const AttentionHeads&) const = default;
};

/// New tokens of a sequence from which serving engines attend by kernels of prefill.
inline constexpr int most_decode_tokens = 16;

/// Scores, softmax and weighted values in one kernel that stores no scores (FlashAttention, arXiv
/// 2205.14135). Forward: two products of `attended` columns per query and head, flop = 2 x queries
/// x attended x heads x (qk_width + v_width). Backward: five, because it computes the scores again:
/// 2 x queries x attended x heads x (3 qk_width + 2 v_width); all that the forward reads or writes
/// is read, and a gradient of it read or written. Serving: keys of earlier tokens are in a cache of
/// the same type, and each is read once for all queries of its sequence.
struct FusedAttention {
  std::int64_t queries = 0;   // tokens, of all sequences together
  std::int64_t attended = 0;  // keys per query, masked ones left out: their mean over the queries
  AttentionHeads shape;
  std::int64_t keys = 0;  // tokens whose keys and values are read; 0: as many as queries

  /// Queries that read one key: 1 for decode, 1 + drafts if it verifies drafts, else many.
  double queries_per_key() const;
  /// Whether it is a kernel of decode: these are bound by reading the cache, and have other tiles.
  bool is_decode() const { return keys > 0 && queries_per_key() < most_decode_tokens; }
  bool operator==(const FusedAttention&) const = default;
};

/// The whole products that a wave is a part of. Needs a wave.
GroupedGemm whole_of(const GroupedGemm& wave);

/// A kernel bound by memory traffic: permute, activation, weighted reduce.
struct MemoryBound {
  Bytes read;
  Bytes written;
  bool goes_on = false;  // a part of a kernel that runs already: it is not launched
  bool operator==(const MemoryBound&) const = default;
};

/// Work of the host that the GPU waits for, such as planning. It has a length and no shape, because
/// policies state it.
struct HostWork {
  std::int64_t nanoseconds = 0;
  bool operator==(const HostWork&) const = default;
};

using Kernel = std::variant<GroupedGemm, MemoryBound, HostWork, FusedAttention>;

bool is_empty(const Kernel& kernel);  // nothing to compute, move or wait for

/// 2 m n k summed over groups; of attention as above; 0 for other kernels.
Flops flops_of(const Kernel& kernel);
/// Every operand once; a wave has its part of the weights.
Bytes memory_traffic_of(const Kernel& kernel);
/// What a kernel multiplies; none for kernels that do not.
std::optional<DataType> type_of(const Kernel& kernel);

/// A product of as many flop, for machines that have no such kernel.
GroupedGemm gemm_of_equal_flops(const FusedAttention& attention);

}  // namespace moesim
