// SPDX-License-Identifier: Apache-2.0
// Continuous batching of one rank of attention data parallelism.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "sim/serving/engine/engine_options.h"
#include "sim/serving/engine/kv_cache.h"
#include "sim/serving/engine/router.h"
#include "sim/serving/engine/serving_sequence.h"

namespace moesim {

/// What one sequence does in a pass.
struct PassEntry {
  std::size_t place = 0;    // among running sequences
  std::int64_t tokens = 0;  // new ones
  bool prompt = false;      // else it decodes
};

/// What a pass gave one sequence.
struct PassGain {
  std::int64_t request = 0, tokens = 0;  // generated
  bool finished = false;                 // here: one that is handed over continues elsewhere
};

/// What a rank did in all.
struct RankCounts {
  std::int64_t prompt_tokens = 0;  // computed, repeated ones included
  std::int64_t cached_tokens = 0;  // of prompts: found in the cache, also after a preemption
  std::int64_t decode_tokens = 0;  // computed, drafts included
  std::int64_t gained_tokens = 0;  // generated
  std::int64_t preemptions = 0;
  std::int64_t lost_tokens = 0;   // whose keys and values went by preemption or with a rank
  std::int64_t asked_tokens = 0;  // of prompts, each when it is first admitted
  std::int64_t hit_tokens = 0;    // of these, found in the cache

  RankCounts& operator+=(const RankCounts& other);
};

/// What a lost rank had. Sequences have nothing computed any more.
struct LostRank {
  std::vector<ServingSequence> sequences;
  std::vector<std::int64_t> handed_over;  // requests whose keys and values were still to be copied
  std::int64_t restarted = 0;             // sequences that had keys and values
  std::int64_t tokens = 0;                // of these
};

/// Sequences wait in order of arrival and run in order of admission. A pass takes what runs
/// first, then admits what fits: sequences, tokens and KV blocks bound it. If blocks are short, the
/// last admitted is preempted: its blocks are freed and its tokens computed again.
class RankScheduler {
 public:
  RankScheduler(const EngineOptions& options, std::int64_t chunk_tokens)
      : options_(options),
        kv_(options.kv, chunk_tokens),
        reserved_share_(options.kv.reserve.initial) {}

  void submit(ServingSequence sequence) { waiting_.push_back(std::move(sequence)); }
  /// Chooses the next pass; empty if there is nothing to do. May be asked again: `prompts` false
  /// leaves those of the first choice for later.
  const std::vector<PassEntry>& plan(bool prompts = true);
  const std::vector<PassEntry>& entries() const { return entries_; }  // of the planned pass
  /// The planned pass was computed: appends what it gave, in the order of its entries.
  void commit(std::vector<PassGain>& gains);
  /// The planned pass was not computed.
  void abandon() { entries_.clear(); }
  /// Frees the blocks of a request that was handed over.
  void release(std::int64_t request);
  /// From now on there is room for so many tokens. Between passes; what does not fit is preempted.
  void resize(std::int64_t kv_tokens);
  /// The rank and its cache are empty afterwards.
  LostRank lose();

  TargetLoad load(std::span<const std::uint64_t> hashes) const;
  const std::vector<ServingSequence>& running() const { return running_; }
  std::int64_t waiting() const { return std::ssize(waiting_); }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  const KvCache& kv() const { return kv_; }
  const RankCounts& counts() const { return counts_; }

 private:
  void plan_running(bool prompts, bool decodes);
  void admit();
  bool admit_first(std::int64_t& reserved);
  bool make_room(std::size_t place, std::int64_t tokens);
  void preempt_last();
  std::int64_t kept_tokens(const ServingSequence& sequence) const;
  std::int64_t kept_for_running() const;
  std::int64_t drawn_gain(const ServingSequence& sequence) const;
  std::int64_t budget() const { return options_.max_tokens - planned_tokens_; }
  void add(std::size_t place, std::int64_t tokens, bool prompt);

  EngineOptions options_;
  KvCache kv_;
  std::deque<ServingSequence> waiting_;
  std::vector<ServingSequence> running_;
  std::unordered_map<std::int64_t, HeldKv> handed_over_;  // by request
  std::vector<PassEntry> entries_;
  std::int64_t planned_tokens_ = 0;
  std::int64_t since_prompts_ = no_limit;  // decode passes
  double reserved_share_;
  RankCounts counts_;
};

}  // namespace moesim
