// SPDX-License-Identifier: Apache-2.0
// One engine: its ranks run passes together, one after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/serving/engine/engine_options.h"
#include "sim/serving/engine/rank_scheduler.h"
#include "sim/serving/engine/router.h"
#include "sim/serving/engine/step_prices.h"

namespace moesim {

/// A pass that an instance ran, or runs.
struct ServingPass {
  Seconds begin{}, time{}, stall{};                   // `time` with the stall
  std::int64_t prompt_tokens = 0, decode_tokens = 0;  // all ranks; no dummies
  std::int64_t sequences = 0;
  std::int64_t padding = 0;  // dummy tokens: of idle ranks and of graphs
  PassKind kind;
  std::int64_t begun = 0;  // RecordedStep::begun of its newest request
  StepPrice price;
};

/// Ranks that an instance loses at once.
struct LostRanks {
  std::int64_t loss = 0;  // its number
  int first = 0, ranks = 1;
  Seconds recovery{};  // in which no pass runs
};

/// Sums over the passes of an instance.
struct InstanceCounts {
  std::int64_t passes = 0, prompt_passes = 0, mixed_passes = 0;
  std::int64_t padding = 0;
  std::int64_t rebalances = 0;  // plans of a balancer,
  std::int64_t rearranged = 0;  // and how many of them moved experts
  Seconds busy{}, stalled{};
  Seconds moving{};                 // of `stalled`: passes in which experts moved
  Seconds lost{};                   // passes that a lost rank ended, and the recovery after them
  std::int64_t losses = 0;          // of ranks at once
  std::int64_t lost_in_vain = 0;    // more, of which all ranks were lost already
  std::int64_t restarted = 0;       // sequences that had keys and values on a lost rank
  std::int64_t lost_kv = 0;         // tokens of these
  std::int64_t kv_left = no_limit;  // least tokens of a rank that the experts of lost ones left
  std::array<Seconds, pass_parts> parts{};
};

class ServingInstance {
 public:
  ServingInstance(const EngineOptions& options, std::int64_t chunk_tokens, StepPrices& prices);

  /// Takes a sequence, which one of its ranks gets when the scheduler looks for new ones.
  void submit(ServingSequence sequence);
  /// Begins the next pass; false if there is nothing to do.
  bool begin(Seconds now);
  /// The pass ended.
  void end();
  /// Appends what passes gave and the host has handled; to be asked after begin().
  void take_results(std::vector<PassGain>& gains);
  const ServingPass& pass() const { return pass_; }
  bool in_pass() const { return in_pass_; }

  /// Frees the blocks of a request that was handed over.
  void release(std::int64_t request);
  /// Ranks from the first on are gone: the pass in progress is lost, and sequences of these ranks
  /// start again on others, once there are any. The others hold the experts. Returns the requests
  /// that were handed over and whose keys and values were still to be copied; null if none of the
  /// ranks was up.
  std::optional<std::vector<std::int64_t>> lose(const LostRanks& lost, Seconds now);
  /// Those that this loss took are back.
  void restore(std::int64_t loss);

  bool is_up() const { return std::ranges::find(up_, true) != up_.end(); }  // some rank
  /// Of an instance that is not: the sequences that wait, which others may take.
  std::vector<ServingSequence> take_waiting();

  /// All ranks together, as a router of instances sees them; `cached` of the best rank.
  TargetLoad load(std::span<const std::uint64_t> hashes) const;
  const std::vector<RankScheduler>& ranks() const { return ranks_; }
  const InstanceCounts& counts() const { return counts_; }
  std::int64_t kv_blocks_in_use() const;  // of all ranks
  std::int64_t most_kv_blocks() const;    // of the fullest
  /// Tokens that a rank has room for, next to the experts of lost ones.
  std::int64_t kv_tokens() const;

 private:
  /// A sequence that no rank has yet, and how many passes had begun when it came.
  struct Newcomer {
    ServingSequence sequence;
    std::int64_t begun = 0;
  };

  bool issues() const { return options_.plans_ahead && options_.one_thread && pass_.kind.eager; }
  void look();
  void hand_to_rank(ServingSequence sequence);
  std::int64_t padded(std::int64_t own, std::int64_t most) const;
  void plan_ranks();
  bool holds_prompts_back();
  void add_dummies(bool decode_only);
  /// Whether the pass ends an interval, and no experts still move.
  bool rebalances() const {
    const std::int64_t interval = options_.rebalance.interval;
    return interval > 0 && (counts_.passes + 1) % interval == 0 && !rebalanced_;
  }
  Seconds rebalance();
  void play_step(std::int64_t newest);
  void price_pass(Seconds now);
  void spread_experts(StepPrice& price) const;
  void hold_experts();

  EngineOptions options_;
  StepPrices& prices_;
  Router router_;
  std::vector<RankScheduler> ranks_;
  std::vector<bool> up_;
  std::vector<std::int64_t> lost_by_;      // [rank] the loss that took it last
  std::vector<ServingSequence> stranded_;  // while no rank is up
  std::vector<Newcomer> unseen_;           // by the scheduler
  std::int64_t since_look_ = 0;            // decode passes
  std::int64_t begun_ = 0;                 // passes
  bool resting_ = true;                    // no pass has just ended
  std::int64_t unbalanced_ = 0;            // passes since prompts were last let in
  ServingBatch batch_;
  ServingPass pass_;
  bool in_pass_ = false;
  std::vector<PassGain> ready_, unhandled_;  // results: of passes before the last one, and of it
  std::int64_t balanced_ = 0;                // PassKind::balanced of passes
  std::optional<std::int64_t> rebalanced_;   // the next one, once experts have moved
  Seconds moving_until_{};
  InstanceCounts counts_;
};

}  // namespace moesim
