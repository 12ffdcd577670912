// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/instance.h"

#include <algorithm>
#include <utility>

namespace moesim {

ServingInstance::ServingInstance(const EngineOptions& options, std::int64_t chunk_tokens,
                                 StepPrices& prices)
    : options_(options),
      prices_(prices),
      router_(options.router),
      ranks_(static_cast<std::size_t>(options.ranks), RankScheduler(options, chunk_tokens)),
      up_(static_cast<std::size_t>(options.ranks), true),
      lost_by_(static_cast<std::size_t>(options.ranks)) {
  batch_.ranks.resize(ranks_.size());
}

void ServingInstance::submit(ServingSequence sequence) {
  if (options_.look_every > 1 || options_.plans_ahead) {
    unseen_.push_back({std::move(sequence), begun_});
  } else {
    hand_to_rank(std::move(sequence));
  }
}

void ServingInstance::look() {
  const bool without_work =
      resting_ || std::ranges::all_of(ranks_, [](const auto& rank) { return rank.idle(); });
  if (!without_work && since_look_ < options_.look_every) return;
  since_look_ = 0;
  // The pass that begins now was chosen when the last one began, or had been issued.
  const bool chosen_before = options_.plans_ahead && !without_work && !issues();
  const std::int64_t newest = chosen_before ? begun_ - 1 : begun_;
  std::size_t seen = 0;
  while (seen < unseen_.size() && unseen_[seen].begun <= newest) {
    hand_to_rank(std::move(unseen_[seen++].sequence));
  }
  unseen_.erase(unseen_.begin(), unseen_.begin() + static_cast<std::ptrdiff_t>(seen));
}

void ServingInstance::hand_to_rank(ServingSequence sequence) {
  const std::span<const std::uint64_t> asked =
      router_.asks_for_cached() ? sequence.hashes : std::span<const std::uint64_t>{};
  std::vector<TargetLoad> loads;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    loads.push_back(ranks_[rank].load(asked));
    loads.back().up = up_[rank];
  }
  const int rank = router_.choose(loads, sequence.known);
  if (rank < 0) {
    stranded_.push_back(std::move(sequence));
  } else {
    ranks_[static_cast<std::size_t>(rank)].submit(std::move(sequence));
  }
}

/// TensorRT-LLM's balance of attention data parallelism (PyExecutor._balance_adp_requests).
bool ServingInstance::holds_prompts_back() {
  bool all_prompts = true, all_decode = true;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!up_[rank]) continue;
    const auto& entries = ranks_[rank].entries();
    all_prompts = all_prompts && std::ranges::any_of(entries, &PassEntry::prompt);
    all_decode =
        all_decode && std::ranges::any_of(entries, [](const PassEntry& e) { return !e.prompt; });
  }
  const bool in = all_prompts || ++unbalanced_ >= options_.balance_wait || !all_decode;
  if (in) unbalanced_ = 0;
  return !in;
}

void ServingInstance::plan_ranks() {
  const auto plan = [&](bool prompts) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (up_[rank]) ranks_[rank].plan(prompts);
    }
  };
  plan(true);
  if (options_.balance_wait > 0 && ranks_.size() > 1 && holds_prompts_back()) plan(false);
}

bool ServingInstance::begin(Seconds now) {
  look();
  plan_ranks();
  pass_ = {};
  std::int64_t newest = 0;  // request
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    auto& steps = batch_.ranks[rank];
    steps.clear();
    if (!up_[rank]) continue;
    for (const PassEntry& entry : ranks_[rank].entries()) {
      const ServingSequence& sequence = ranks_[rank].running()[entry.place];
      steps.push_back({sequence.computed, entry.tokens, 1, sequence.request});
      (entry.prompt ? pass_.prompt_tokens : pass_.decode_tokens) += entry.tokens;
      newest = std::max(newest, sequence.request);
      ++pass_.sequences;
    }
  }
  resting_ = pass_.sequences == 0;
  if (resting_) return false;
  ++begun_;
  add_dummies(pass_.prompt_tokens == 0);
  pass_.kind.eager = options_.runs_eagerly(batch_, pass_.prompt_tokens > 0);
  play_step(newest);
  price_pass(now);
  in_pass_ = true;
  return true;
}

/// Requests come in the order of the recorded sequences: a pass plays the step of its newest one.
void ServingInstance::play_step(std::int64_t newest) {
  const RecordedStep step = prices_.step_of(newest);
  pass_.kind.step = step.number;
  pass_.begun = step.begun;
}

void ServingInstance::price_pass(Seconds now) {
  pass_.begin = now;
  if (rebalanced_ && now >= moving_until_) balanced_ = *std::exchange(rebalanced_, std::nullopt);
  pass_.kind.balanced = balanced_;
  pass_.price = prices_.price(batch_, pass_.kind);
  spread_experts(pass_.price);
  if (now < moving_until_) pass_.stall = options_.rebalance.slowdown * pass_.price.time;
  const bool moves = rebalances();
  if (moves) pass_.stall += rebalance();
  pass_.time = pass_.price.time + pass_.stall;
  if (moves) moving_until_ = pass_.begin + pass_.time + options_.rebalance.movement;
}

/// The other ranks have the experts of the lost ones, in equal parts: an interpretation.
void ServingInstance::spread_experts(StepPrice& price) const {
  if (options_.experts_apart) return;
  const auto up = std::ranges::count(up_, true);
  if (up == std::ssize(up_)) return;
  Seconds& experts = price.parts[static_cast<std::size_t>(PassPart::experts)];
  const Seconds more = experts * (static_cast<double>(up_.size()) / static_cast<double>(up) - 1);
  experts += more;
  price.time += more;
}

std::int64_t ServingInstance::kv_tokens() const {
  if (options_.experts_apart) return options_.kv.capacity;
  const auto lost = static_cast<int>(std::ranges::count(up_, false));
  return options_.experts.tokens_left(options_.kv.capacity, options_.ranks, lost);
}

/// Ranks that are up have those of the lost ones.
void ServingInstance::hold_experts() {
  const std::int64_t tokens = kv_tokens();
  if (tokens < options_.kv.capacity) counts_.kv_left = std::min(counts_.kv_left, tokens);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (up_[rank]) ranks_[rank].resize(tokens);
  }
}

/// The balancer knows the recorded steps that have begun. Returns the stall; movement behind passes
/// begins after the pass.
Seconds ServingInstance::rebalance() {
  ++counts_.rebalances;
  rebalanced_ = pass_.begun;
  Rebalancing rebalancing{options_.rebalance.stall.value_or(Seconds(0)), true};
  if (!options_.rebalance.stall) rebalancing = prices_.moving(balanced_, pass_.begun);
  counts_.rearranged += rebalancing.moved ? 1 : 0;
  counts_.moving += rebalancing.stall;
  return rebalancing.stall;
}

/// Rows of a rank with `own` sequences if the graph is recorded for `most` or more; as many as it
/// has if no graph is.
std::int64_t ServingInstance::padded(std::int64_t own, std::int64_t most) const {
  const auto size = std::ranges::lower_bound(options_.graph_sizes, most);
  return size == options_.graph_sizes.end() ? own : *size;
}

void ServingInstance::add_dummies(bool decode_only) {
  const std::int64_t tokens = decode_only ? 1 + options_.drafts : 1;
  std::int64_t most = 0;
  for (const auto& steps : batch_.ranks) most = std::max<std::int64_t>(most, std::ssize(steps));
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    auto& steps = batch_.ranks[rank];
    if (!up_[rank]) continue;
    const std::int64_t own = std::ssize(steps);
    std::int64_t rows = own == 0 && options_.idle_passes ? 1 : own;
    if (decode_only && rows > 0) rows = padded(rows, options_.graphs_alike ? most : rows);
    if (rows <= own) continue;
    pass_.padding += (rows - own) * tokens;
    steps.push_back({1, tokens, rows - own, -1});
  }
}

void ServingInstance::end() {
  in_pass_ = false;
  ready_.insert(ready_.end(), unhandled_.begin(), unhandled_.end());
  unhandled_.clear();
  for (RankScheduler& rank : ranks_) rank.commit(unhandled_);
  ++counts_.passes;
  since_look_ = pass_.prompt_tokens > 0 ? options_.look_every : since_look_ + 1;
  if (pass_.prompt_tokens > 0)
    ++(pass_.decode_tokens > 0 ? counts_.mixed_passes : counts_.prompt_passes);
  counts_.padding += pass_.padding;
  counts_.busy += pass_.time;
  counts_.stalled += pass_.stall;
  for (std::size_t part = 0; part < pass_parts; ++part) {
    counts_.parts[part] += pass_.price.parts[part];
  }
}

void ServingInstance::take_results(std::vector<PassGain>& gains) {
  gains.insert(gains.end(), ready_.begin(), ready_.end());
  ready_.clear();
  if (in_pass_ && issues()) return;  // the host issues the pass that has just begun
  gains.insert(gains.end(), unhandled_.begin(), unhandled_.end());
  unhandled_.clear();
}

void ServingInstance::release(std::int64_t request) {
  for (RankScheduler& rank : ranks_) rank.release(request);
}

std::optional<std::vector<std::int64_t>> ServingInstance::lose(const LostRanks& lost, Seconds now) {
  std::vector<std::size_t> gone;
  for (int rank = lost.first; rank < lost.first + lost.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (!up_[at]) continue;
    gone.push_back(at);
    up_[at] = false;
    lost_by_[at] = lost.loss;
  }
  if (gone.empty()) {
    ++counts_.lost_in_vain;
    return std::nullopt;
  }
  ++counts_.losses;
  if (in_pass_) {
    in_pass_ = false;
    counts_.lost += now - pass_.begin;
    for (RankScheduler& each : ranks_) each.abandon();
  }
  resting_ = true;
  counts_.lost += lost.recovery;
  hold_experts();
  std::vector<std::int64_t> handed_over;
  for (const std::size_t rank : gone) {
    LostRank had = ranks_[rank].lose();
    counts_.restarted += had.restarted;
    counts_.lost_kv += had.tokens;
    handed_over.insert(handed_over.end(), had.handed_over.begin(), had.handed_over.end());
    for (ServingSequence& sequence : had.sequences) hand_to_rank(std::move(sequence));
  }
  return handed_over;
}

void ServingInstance::restore(std::int64_t loss) {
  for (std::size_t rank = 0; rank < up_.size(); ++rank) {
    up_[rank] = up_[rank] || lost_by_[rank] == loss;
  }
  hold_experts();
  for (ServingSequence& sequence : std::exchange(stranded_, {})) hand_to_rank(std::move(sequence));
}

std::vector<ServingSequence> ServingInstance::take_waiting() {
  std::vector<ServingSequence> waiting = std::exchange(stranded_, {});
  for (Newcomer& newcomer : std::exchange(unseen_, {})) {
    waiting.push_back(std::move(newcomer.sequence));
  }
  return waiting;
}

TargetLoad ServingInstance::load(std::span<const std::uint64_t> hashes) const {
  TargetLoad all;
  all.up = is_up();
  all.waiting = std::ssize(unseen_) + std::ssize(stranded_);
  for (const Newcomer& newcomer : unseen_) {
    all.tokens += newcomer.sequence.known + newcomer.sequence.remaining();
  }
  for (const RankScheduler& rank : ranks_) {
    const TargetLoad load = rank.load(hashes);
    all.waiting += load.waiting;
    all.running += load.running;
    all.tokens += load.tokens;
    all.cached = std::max(all.cached, load.cached);
  }
  return all;
}

std::int64_t ServingInstance::most_kv_blocks() const {
  std::int64_t most = 0;
  for (const RankScheduler& rank : ranks_) most = std::max(most, rank.kv().in_use());
  return most;
}

std::int64_t ServingInstance::kv_blocks_in_use() const {
  std::int64_t blocks = 0;
  for (const RankScheduler& rank : ranks_) blocks += rank.kv().in_use();
  return blocks;
}

}  // namespace moesim
