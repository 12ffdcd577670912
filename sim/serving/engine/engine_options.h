// SPDX-License-Identifier: Apache-2.0
// How a serving engine forms its passes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/model/kv_cache.h"
#include "sim/model/serving_batch.h"
#include "sim/serving/engine/served_experts.h"

namespace moesim {

inline constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

/// Which of several ranks or instances takes a request.
struct RouterOptions {
  enum class Kind { round_robin, least_requests, least_tokens, prefix, random };
  Kind kind = Kind::round_robin;
  /// least_requests: a waiting request counts as so many running ones.
  double waiting_weight = 1;
  /// prefix: the longest cached prefix wins if it covers this share of the prompt, unless the most
  /// loaded has more requests than the least loaded by both of these; else least_requests.
  double match = 0.5;
  std::int64_t imbalance = 64;
  double imbalance_ratio = 1.5;
  /// round_robin: so many routers take turns, each with a round of its own that begins anywhere.
  int front_ends = 1;
};
inline const std::vector<std::string> router_names = {"round-robin", "least-requests",
                                                      "least-tokens", "prefix", "random"};

/// How much of a running request's answer keeps KV blocks free of newcomers: a share of the tokens
/// that are still to come. 0: none, so that running requests may be preempted; 1: all, so that none
/// ever is.
struct ReserveOptions {
  double initial = 0, least = 0;
  std::int64_t passes = 0;  // decode passes in which it falls from one to the other
};

struct KvOptions {
  std::int64_t block = 16;           // tokens
  std::int64_t capacity = no_limit;  // tokens per rank
  bool prefix_cache = true;
  ReserveOptions reserve;
  /// What a sequence takes of the memory that the capacity is; without: as many tokens as it has.
  SequenceCache sequence;

  /// Blocks of a sequence: states and windows take as many as their bytes, of which a token's in
  /// layers without windows are the unit.
  std::int64_t blocks_of(std::int64_t tokens) const {
    const std::int64_t token = sequence.per_token.value;
    if (token > 0 && tokens > 0) tokens += (sequence.bounded(tokens).value + token - 1) / token;
    return (tokens + block - 1) / block;
  }
};

/// What moves experts now and then.
struct RebalanceOptions {
  std::int64_t interval = 0;  // passes; 0: never
  /// Of the pass that it happens in; not stated: as long as the experts' way takes.
  std::optional<Seconds> stall;
  /// Movement behind passes: so long are they slower by that share.
  Seconds movement{};
  double slowdown = 0;
};

struct EngineOptions {
  std::string name;                       // of the preset; empty: none
  std::string version;                    // of the engine that it describes
  int ranks = 1;                          // of attention data parallelism
  std::int64_t max_sequences = no_limit;  // running ones, per rank
  /// Requests that another instance continues count as running until their blocks are copied.
  bool holds_places = false;
  std::int64_t max_tokens = no_limit;  // of a pass, per rank
  std::int64_t chunk = no_limit;       // tokens of one prompt in a pass
  bool chunked_prefill = true;         // else a prompt is computed in one pass
  bool mixed = true;         // prompts and answers share passes; else prompts have their own
  std::int64_t cadence = 0;  // decode passes between two passes that compute prompts
  bool idle_passes = true;   // ranks without work join the passes of the others by one token
  /// Sequences of a decode pass for which a graph is recorded, ascending: smaller ones are padded.
  std::vector<std::int64_t> graph_sizes;
  bool graphs_alike = true;  // all ranks are padded to the largest
  /// Graphs run passes with prompts of at most so many tokens per rank; the host issues each kernel
  /// of larger ones.
  std::int64_t graph_prompt_tokens = no_limit;
  /// Decode passes after which the scheduler looks for new requests; it does so, too, after other
  /// passes and when it has nothing to do.
  std::int64_t look_every = 1;
  /// The host prepares a pass while the pass before it is computed: its requests were there when
  /// that one began. An engine without work does not wait.
  bool plans_ahead = false;
  /// The thread that schedules issues kernels, too. While it issues a pass without a graph, until
  /// that ends, it sees no newcomer and hands out no result of the pass before. It matters only if
  /// it plans ahead.
  bool one_thread = false;
  /// Prompts wait until all ranks have some, but for at most so many passes; 0: they do not.
  /// Counted from the last pass with prompts, whether some wait or not, while all ranks decode.
  std::int64_t balance_wait = 0;
  /// From a client to the scheduler (HTTP, checks, tokenizer); requests do not wait for each other.
  Seconds intake{};
  int drafts = 0;  // tokens that each sequence verifies per decode pass
  /// [n - 1] the share of decode passes in which a sequence gains n tokens; drafts + 1 shares.
  std::vector<double> gained = {1};
  std::uint64_t seed = 0;  // of what is gained
  KvOptions kv;
  RouterOptions router;                         // between the ranks
  std::optional<RouterOptions> prompts_router;  // in its place where another instance decodes
  bool experts_apart = false;                   // on GPUs of no rank: a lost rank takes none along
  ServedExperts experts;                        // what they take of `kv` if ranks are lost
  RebalanceOptions rebalance;

  /// Tokens of a rank up to which graphs run a pass: one with prompts, or one that only decodes.
  std::int64_t largest_graph(bool prompts) const {
    if (prompts) return graph_prompt_tokens;
    return graph_sizes.empty() ? no_limit : graph_sizes.back() * (1 + drafts);
  }
  /// Whether no graph runs a pass of that batch.
  bool runs_eagerly(const ServingBatch& batch, bool prompts) const {
    const std::int64_t largest = largest_graph(prompts);
    return std::ranges::any_of(batch.ranks,
                               [&](const auto& steps) { return tokens_of(steps) > largest; });
  }
};

}  // namespace moesim
