// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/rank_scheduler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/trace/synth/random.h"

namespace moesim {

RankCounts& RankCounts::operator+=(const RankCounts& other) {
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  decode_tokens += other.decode_tokens;
  gained_tokens += other.gained_tokens;
  preemptions += other.preemptions;
  lost_tokens += other.lost_tokens;
  asked_tokens += other.asked_tokens;
  hit_tokens += other.hit_tokens;
  return *this;
}

void RankScheduler::add(std::size_t place, std::int64_t tokens, bool prompt) {
  entries_.push_back({place, tokens, prompt});
  planned_tokens_ += tokens;
}

const std::vector<PassEntry>& RankScheduler::plan(bool prompts) {
  entries_.clear();
  planned_tokens_ = 0;
  if (!prompts) {
    plan_running(false, true);
    return entries_;
  }
  const bool decodes = std::ranges::any_of(
      running_, [](const ServingSequence& sequence) { return !sequence.in_prompt(); });
  const bool prompts_due = !decodes || since_prompts_ >= options_.cadence;
  const std::int64_t preempted = counts_.preemptions;
  if (options_.mixed) {
    plan_running(true, true);
    // Newcomers would take the blocks that a preemption has just freed.
    if (prompts_due && counts_.preemptions == preempted) admit();
    return entries_;
  }
  if (prompts_due) {
    plan_running(true, false);
    if (counts_.preemptions == preempted) admit();
  }
  if (entries_.empty()) plan_running(false, true);
  return entries_;
}

void RankScheduler::plan_running(bool prompts, bool decodes) {
  for (std::size_t place = 0; place < running_.size() && budget() > 0; ++place) {
    const ServingSequence& sequence = running_[place];
    const bool prompt = sequence.in_prompt();
    if (prompt ? !prompts : !decodes) continue;
    std::int64_t tokens = 1 + options_.drafts;
    if (prompt) {
      tokens = std::min({sequence.known - sequence.computed, options_.chunk, budget()});
    } else if (tokens > budget()) {
      continue;
    }
    if (!make_room(place, sequence.computed + tokens)) return;
    add(place, tokens, prompt);
  }
}

/// False if the sequence itself had to be preempted.
bool RankScheduler::make_room(std::size_t place, std::int64_t tokens) {
  while (!kv_.grow(running_[place].kv, tokens)) {
    const bool itself = place + 1 == running_.size();
    preempt_last();
    if (itself) return false;
  }
  return true;
}

void RankScheduler::preempt_last() {
  ServingSequence sequence = std::move(running_.back());
  running_.pop_back();
  ++counts_.preemptions;
  counts_.lost_tokens += sequence.computed;
  kv_.release(sequence.kv);
  sequence.computed = sequence.carried = 0;
  waiting_.push_front(std::move(sequence));
  reserved_share_ = options_.kv.reserve.initial;
}

/// Tokens for which the sequence has blocks or keeps them free of newcomers.
std::int64_t RankScheduler::kept_tokens(const ServingSequence& sequence) const {
  const double rest = std::ceil(reserved_share_ * static_cast<double>(sequence.remaining()));
  return sequence.known + static_cast<std::int64_t>(rest) + options_.drafts;
}

std::int64_t RankScheduler::kept_for_running() const {
  std::int64_t blocks = 0;
  if (reserved_share_ == 0) return blocks;
  for (const ServingSequence& sequence : running_) {
    const auto more = kv_.blocks_of(kept_tokens(sequence)) - kv_.held_blocks(sequence.kv);
    blocks += std::max<std::int64_t>(more, 0);
  }
  return blocks;
}

void RankScheduler::admit() {
  if (waiting_.empty()) return;
  std::int64_t reserved = kept_for_running();
  const std::int64_t held = options_.holds_places ? std::ssize(handed_over_) : 0;
  while (!waiting_.empty() && std::ssize(running_) + held < options_.max_sequences &&
         budget() > 0 && admit_first(reserved)) {
  }
}

bool RankScheduler::admit_first(std::int64_t& reserved) {
  ServingSequence& sequence = waiting_.front();
  const bool carried = sequence.carried > 0;
  // The last token is computed again, and in whole blocks what is with it.
  const std::int64_t block = options_.kv.block;
  const std::int64_t most_found = (sequence.known - 1) / block * block;
  const std::int64_t found = carried ? 0 : std::min(kv_.cached(sequence.hashes), most_found);
  const std::int64_t done = carried ? sequence.carried : found;
  const std::int64_t whole = carried ? 1 + options_.drafts : sequence.known - done;
  const std::int64_t tokens = carried ? whole : std::min({whole, options_.chunk, budget()});
  if (tokens > budget() || (!options_.chunked_prefill && tokens < whole)) return false;
  std::int64_t kept = 0;
  if (reserved_share_ > 0) {
    kept = kv_.missing(sequence.hashes, kept_tokens(sequence));
    if (kept + reserved > kv_.available()) return false;
  }
  const std::int64_t before = kv_.available();
  kv_.attach(sequence.kv, carried ? std::span<const std::uint64_t>{} : sequence.hashes);
  if (!kv_.grow(sequence.kv, done + tokens)) {
    kv_.release(sequence.kv);
    return false;
  }
  reserved += std::max<std::int64_t>(kept - (before - kv_.available()), 0);
  // What it computed itself before a preemption is no hit, nor is what another instance computed.
  if (!std::exchange(sequence.admitted, true) && sequence.emitted == 0) {
    counts_.asked_tokens += sequence.known;
    counts_.hit_tokens += found;
  }
  counts_.cached_tokens += found;
  sequence.computed = done;
  const std::size_t place = running_.size();
  running_.push_back(std::move(sequence));
  waiting_.pop_front();
  if (!carried || options_.mixed) add(place, tokens, !carried);
  return true;
}

std::int64_t RankScheduler::drawn_gain(const ServingSequence& sequence) const {
  if (options_.drafts == 0) return 1;
  Random random(options_.seed, static_cast<std::uint64_t>(sequence.request),
                static_cast<std::uint64_t>(sequence.emitted));
  double left = random.uniform();
  for (std::size_t n = 0; n < options_.gained.size(); ++n) {
    left -= options_.gained[n];
    if (left < 0) return static_cast<std::int64_t>(n) + 1;
  }
  return std::ssize(options_.gained);
}

void RankScheduler::commit(std::vector<PassGain>& gains) {
  bool prompts = false;
  std::vector<std::size_t> finished;
  for (const PassEntry& entry : entries_) {
    ServingSequence& sequence = running_[entry.place];
    std::int64_t gain = 0;
    if (entry.prompt) {
      prompts = true;
      sequence.computed += entry.tokens;
      counts_.prompt_tokens += entry.tokens;
      kv_.publish(sequence.kv, sequence.hashes, sequence.computed);
      gain = sequence.computed == sequence.known ? 1 : 0;
    } else {
      counts_.decode_tokens += entry.tokens;
      gain = std::min(drawn_gain(sequence), sequence.remaining());
      sequence.computed += gain;
    }
    if (gain == 0) continue;
    sequence.known += gain;
    sequence.emitted += gain;
    counts_.gained_tokens += gain;
    const bool done = sequence.remaining() <= 0;
    gains.push_back({sequence.request, gain, done});
    if (done) finished.push_back(entry.place);
  }
  if (!entries_.empty()) {
    since_prompts_ = prompts ? 0 : std::min(since_prompts_, no_limit - 1) + 1;
    const ReserveOptions& reserve = options_.kv.reserve;
    if (!prompts && reserve.passes > 0) {
      const double step = (reserve.initial - reserve.least) / static_cast<double>(reserve.passes);
      reserved_share_ = std::max(reserve.least, reserved_share_ - step);
    }
  }
  for (const std::size_t place : finished) {
    ServingSequence& sequence = running_[place];
    if (sequence.hands_over) {
      handed_over_.emplace(sequence.request, std::move(sequence.kv));
    } else {
      kv_.release(sequence.kv);
    }
  }
  std::erase_if(running_,
                [](const ServingSequence& sequence) { return sequence.remaining() <= 0; });
  entries_.clear();
}

void RankScheduler::release(std::int64_t request) {
  const auto at = handed_over_.find(request);
  if (at == handed_over_.end()) return;
  kv_.release(at->second);
  handed_over_.erase(at);
}

void RankScheduler::resize(std::int64_t kv_tokens) {
  kv_.resize(kv_tokens / options_.kv.block);
  while (kv_.available() < 0 && !running_.empty()) preempt_last();
}

LostRank RankScheduler::lose() {
  LostRank lost;
  for (ServingSequence& sequence : running_) lost.sequences.push_back(std::move(sequence));
  for (ServingSequence& sequence : waiting_) lost.sequences.push_back(std::move(sequence));
  for (ServingSequence& sequence : lost.sequences) {
    // Keys and values that came from elsewhere are computed from the first pass on.
    const std::int64_t tokens = std::max(sequence.computed, sequence.carried);
    lost.restarted += tokens > 0 ? 1 : 0;
    lost.tokens += tokens;
    sequence.kv = {};
    sequence.computed = sequence.carried = 0;
  }
  for (const auto& [request, kv] : handed_over_) lost.handed_over.push_back(request);
  std::ranges::sort(lost.handed_over);
  counts_.lost_tokens += lost.tokens;
  running_.clear();
  waiting_.clear();
  handed_over_.clear();
  entries_.clear();
  kv_.clear();
  return lost;
}

TargetLoad RankScheduler::load(std::span<const std::uint64_t> hashes) const {
  TargetLoad load;
  load.waiting = std::ssize(waiting_);
  load.running = std::ssize(running_);
  for (const ServingSequence& sequence : running_) {
    load.tokens += sequence.known - sequence.computed + sequence.remaining();
  }
  for (const ServingSequence& sequence : waiting_) {
    load.tokens += sequence.known + sequence.remaining();
  }
  load.cached = kv_.cached(hashes);
  return load;
}

}  // namespace moesim
