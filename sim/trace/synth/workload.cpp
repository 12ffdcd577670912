// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "sim/base/error.h"
#include "sim/base/ordering.h"

namespace moesim {
namespace {

/// The first four bytes of a SHA-256 as a big-endian number.
std::uint32_t digest_head(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("libcrypto has no SHA-256");
  }
  std::uint32_t head = 0;
  for (int i = 0; i < 4; ++i) head = head << 8 | digest[static_cast<std::size_t>(i)];
  return head;
}

/// Draws as PyTorch's generator of the CPU, which is MT19937.
class TorchRandom {
 public:
  explicit TorchRandom(std::uint32_t seed) : words_(seed) {}

  /// The first `count` of randperm(pool.size()), as members of the pool, ascending.
  void distinct(const std::vector<int>& pool, int count, std::vector<int>& out) {
    order_ = pool;
    // It shuffles to the end, and what it draws shifts what comes after.
    for (std::size_t i = 0; i + 1 < order_.size(); ++i) {
      std::swap(order_[i], order_[i + words_() % (order_.size() - i)]);
    }
    out.assign(order_.begin(), order_.begin() + count);
    std::sort(out.begin(), out.end());
  }
  /// In [0, 1), 24 bits.
  float uniform() { return static_cast<float>(words_() & 0xffffffU) * 0x1p-24F; }

 private:
  std::mt19937 words_;
  std::vector<int> order_;
};

std::vector<int> experts_from(int first, int count, int modulo, int stride = 1) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back((first + i * stride) % modulo);
  return out;
}

/// What some tokens of a step draw from; the others draw from all experts.
struct HotExperts {
  std::vector<int> pool;  // empty: all tokens draw from all
  int every = 4;          // the first of so many tokens ...
  bool others = true;     // ... is the one that does not draw from the pool, or the one that does
  bool draws(std::int64_t token) const { return !pool.empty() && (token % every != 0) == others; }
};

HotExperts hot_experts(Workload workload, int experts, int top_k, int step) {
  const int width = std::max(top_k, experts / 4);
  switch (workload) {
    case Workload::hot_expert_set:
    case Workload::hot_rank:
      return {experts_from(0, width, experts)};
    case Workload::spread_hot_experts: {
      std::vector<int> even = experts_from(0, std::max(top_k, experts / 2), experts, 2);
      sort_once(even);
      if (static_cast<int>(even.size()) < top_k) return {};
      return {std::move(even)};
    }
    case Workload::zero_expert_rank:
      return {experts_from(experts / 2, experts - experts / 2, experts), 1, false};
    case Workload::rotating_hotspot:
      return {
          experts_from(static_cast<int>(std::int64_t{step / 3} * width % experts), width, experts)};
    case Workload::burst:
      if (step % 4 != 3) return {};
      return {experts_from(0, width, experts), 2, false};
    case Workload::balanced:
    case Workload::source_ragged:
      break;
  }
  return {};
}

/// Lengths in proportion to 1, 2, 3 ..., at least one token each.
std::vector<std::int32_t> growing_lengths(std::int64_t tokens, int sequences) {
  std::vector<std::int32_t> lengths;
  const std::int64_t spread = tokens - sequences, n = sequences;
  std::int64_t before = 0;
  for (std::int64_t i = 1; i <= n; ++i) {
    const auto share = static_cast<double>(i * (i + 1)) / static_cast<double>(n * (n + 1));
    const auto until =
        i == n ? spread : static_cast<std::int64_t>(share * static_cast<double>(spread));
    lengths.push_back(static_cast<std::int32_t>(1 + until - before));
    before = until;
  }
  return lengths;
}

/// The rows of one layer of one step, appended.
void draw_workload_layer(const SynthOptions& o, Workload workload, int step, std::uint64_t seed,
                         StepArrays& arrays, std::int64_t& to) {
  const std::string& name = workload_names()[static_cast<std::size_t>(workload)];
  TorchRandom random(digest_head(fmt::format("{}|{}|{}", name, seed, step)));
  const HotExperts hot = hot_experts(workload, o.experts, o.top_k, step);
  const std::vector<int> all = experts_from(0, o.experts, o.experts);
  std::vector<int> row;
  for (std::int64_t t = 0; t < o.tokens; ++t) {
    if (workload == Workload::balanced) {
      row = experts_from(static_cast<int>(t * o.top_k % o.experts), o.top_k, o.experts);
    } else {
      random.distinct(hot.draws(t) ? hot.pool : all, o.top_k, row);
    }
    for (const int expert : row) arrays.ids.set(to++, expert);
  }
  std::vector<float> gates(static_cast<std::size_t>(o.top_k));
  for (std::int64_t t = 0; t < o.tokens; ++t) {
    for (float& gate : gates) gate = random.uniform() * 0.5F + 0.5F;
    const float sum = std::accumulate(gates.begin(), gates.end(), 0.0F);
    for (const float gate : gates) arrays.weights.push_back(gate / sum);
  }
}

}  // namespace

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> names = {
      "W0_balanced",      "W1_hot_expert_set",   "W2_hot_rank",         "W3_spread_hot_experts",
      "W4_source_ragged", "W5_zero_expert_rank", "W6_rotating_hotspot", "W7_burst"};
  return names;
}

Workload workload_of(const std::string& text) {
  const auto& names = workload_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (text == names[i] || text == names[i].substr(0, 2)) return static_cast<Workload>(i);
  }
  throw Error(fmt::format("'{}' is not a workload", text),
              fmt::format("they are {}, or W0 to W7", fmt::join(names, ", ")));
}

WorkloadSynthesis::WorkloadSynthesis(const SynthOptions& options, Workload workload)
    : options_(options), workload_(workload) {
  check_shape(options_);
  if (workload == Workload::zero_expert_rank &&
      options_.experts - options_.experts / 2 < options_.top_k) {
    throw Error(fmt::format("W5 chooses among the upper half of {} experts, fewer than top-k {}",
                            options_.experts, options_.top_k));
  }
  const nlohmann::ordered_json provenance = {
      {"synthesized", true},
      {"workload", workload_names()[static_cast<std::size_t>(workload)]},
      {"seed", options_.seed}};
  info_ = {options_.name,   options_.model,   options_.experts, options_.top_k,
           options_.layers, Phase::synthetic, provenance.dump()};
}

std::shared_ptr<const TraceStep> WorkloadSynthesis::next_step(const TraceProgress& progress) {
  StepArrays arrays;
  arrays.number = step_;
  arrays.sequence_lengths = workload_ == Workload::source_ragged
                                ? growing_lengths(options_.tokens, options_.sequences)
                                : even_lengths(options_.tokens, options_.sequences);
  const std::size_t layers = options_.layers.size();
  arrays.ids = IdArray(options_.experts,
                       static_cast<std::int64_t>(layers) * options_.tokens * options_.top_k);
  std::int64_t to = 0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (progress) {
      progress((step_ + static_cast<double>(layer) / static_cast<double>(layers)) / options_.steps);
    }
    draw_workload_layer(options_, workload_, step_, options_.seed + layer, arrays, to);
  }
  ++step_;
  return make_step(info_, std::move(arrays));
}

}  // namespace moesim
