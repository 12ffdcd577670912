// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/echo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>

#include "sim/base/id_vector.h"
#include "sim/base/ordering.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/exact_load.h"
#include "sim/mechanism/placement/serving/spilling.h"

namespace moesim {
namespace echo {
namespace {

using Counts = std::vector<std::int64_t>;

/// What experts have to give, and GPUs can take.
struct Spilled {
  std::int64_t mean = 0;
  Counts surplus;  // [expert]
  Counts room;     // [gpu]
};

Spilled spilled(std::span<const std::int64_t> counts, int gpus) {
  Spilled result;
  result.mean = std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) / gpus;
  const Uneven of = uneven(counts, gpus, static_cast<double>(result.mean));
  result.surplus.assign(of.of_experts.begin(), of.of_experts.end());
  result.room.assign(of.room.begin(), of.room.end());
  return result;
}

class Buckets {
 public:
  explicit Buckets(std::int64_t mean) : mean_(mean) {}
  void put(std::size_t expert, std::int64_t left) {
    const std::int64_t width = std::max<std::int64_t>(mean_ / (count - 1), 1);
    const std::int64_t bucket =
        left >= mean_ ? 0 : std::min<std::int64_t>((mean_ - left) / width + 1, count - 1);
    lists_[static_cast<std::size_t>(bucket)].push_back(expert);
  }
  bool empty() const {
    return std::ranges::all_of(lists_, [](const auto& list) { return list.empty(); });
  }
  std::size_t take() {
    auto& list = *std::ranges::find_if(lists_, [](const auto& each) { return !each.empty(); });
    const std::size_t expert = list.front();
    list.pop_front();
    return expert;
  }

 private:
  static constexpr std::int64_t count = 8;
  std::int64_t mean_;
  std::array<std::deque<std::size_t>, count> lists_;
};

/// [expert][gpu] of clones.
std::vector<Counts> packed(Spilled of) {
  std::vector<Counts> clones(of.surplus.size(), Counts(of.room.size()));
  Buckets buckets(of.mean);
  for (const std::size_t e : descending<std::size_t>(of.surplus)) {
    if (of.surplus[e] > 0) buckets.put(e, of.surplus[e]);
  }
  for (const std::size_t gpu : descending<std::size_t>(of.room)) {
    if (of.room[gpu] == 0 || buckets.empty()) break;
    const std::size_t e = buckets.take();
    const std::int64_t taken = std::min(of.surplus[e], of.room[gpu]);
    clones[e][gpu] = taken;
    of.surplus[e] -= taken;
    if (of.surplus[e] > 0) buckets.put(e, of.surplus[e]);
  }
  return clones;
}

std::vector<Counts> laid_side_by_side(const Spilled& of, int slots) {
  std::vector<Counts> clones(of.surplus.size(), Counts(of.room.size()));
  const std::vector<std::size_t> experts = descending<std::size_t>(of.surplus);
  std::int64_t room_begin = 0;
  for (const std::size_t gpu : descending<std::size_t>(of.room)) {
    const std::int64_t room_end = room_begin + of.room[gpu];
    Counts overlaps;
    std::int64_t begin = 0;
    for (const std::size_t e : experts) {
      const std::int64_t end = begin + of.surplus[e];
      overlaps.push_back(
          std::max<std::int64_t>(std::min(end, room_end) - std::max(begin, room_begin), 0));
      begin = end;
    }
    const std::vector<std::size_t> largest = descending<std::size_t>(overlaps);
    for (std::size_t i = 0; i < std::min(largest.size(), static_cast<std::size_t>(slots)); ++i) {
      clones[experts[largest[i]]][gpu] = overlaps[largest[i]];
    }
    room_begin = room_end;
  }
  return clones;
}

/// Token-slots of one expert that every rank gives to each of its clones: [clone][rank].
std::vector<Counts> given(const Counts& held, const Counts& clones) {
  const std::int64_t all = std::accumulate(held.begin(), held.end(), std::int64_t{0});
  std::vector<Counts> parts;
  Counts left = held, missing = clones;
  for (std::size_t c = 0; c < clones.size(); ++c) {
    auto& of_clone = parts.emplace_back();
    for (std::size_t r = 0; r < held.size(); ++r) {
      // In single precision, as upstream.
      const float part = static_cast<float>(held[r]) / static_cast<float>(all);
      of_clone.push_back(std::llround(std::floor(part * static_cast<float>(clones[c]))));
      left[r] -= of_clone.back();
      missing[c] -= of_clone.back();
    }
  }
  std::int64_t begin = 0;
  for (std::size_t c = 0; c < clones.size(); ++c) {
    const std::int64_t end = begin + missing[c];
    std::int64_t from = 0;
    for (std::size_t r = 0; r < held.size(); ++r) {
      const std::int64_t to = from + left[r];
      parts[c][r] += std::max<std::int64_t>(std::min(to, end) - std::max(from, begin), 0);
      from = to;
    }
    begin = end;
  }
  return parts;
}

}  // namespace

Uneven uneven(std::span<const std::int64_t> counts, int gpus, double mean) {
  Uneven result;
  result.of_experts.resize(counts.size());
  const std::size_t per_gpu = counts.size() / static_cast<std::size_t>(gpus);
  for (std::size_t first = 0; first < counts.size(); first += per_gpu) {
    std::vector<std::size_t> own(per_gpu);
    std::iota(own.begin(), own.end(), first);
    std::ranges::stable_sort(own, [&](auto a, auto b) { return counts[a] < counts[b]; });
    double sum = 0;
    for (const std::size_t e : own) {
      const double above = std::max(sum - mean, 0.0);
      sum += static_cast<double>(counts[e]);
      result.of_experts[e] = std::max(sum - mean, 0.0) - above;
    }
    result.surplus.push_back(std::max(sum - mean, 0.0));
    result.room.push_back(std::max(mean - sum, 0.0));
  }
  return result;
}

llep::Plan plan(std::span<const std::int64_t> counts, int gpus, int slots) {
  llep::applies(counts, gpus, 0);  // throws for counts that cannot be spread
  const Spilled of = spilled(counts, gpus);
  return plan_of_clones(counts, gpus, slots == 1 ? packed(of) : laid_side_by_side(of, slots));
}

llep::Plan plan_of_clones(std::span<const std::int64_t> counts, int gpus,
                          std::vector<Counts> clones) {
  const std::size_t per_gpu = counts.size() / static_cast<std::size_t>(gpus);
  for (std::size_t e = 0; e < clones.size(); ++e) {
    const std::int64_t gone = std::accumulate(clones[e].begin(), clones[e].end(), std::int64_t{0});
    clones[e][e / per_gpu] = counts[e] - gone;
  }
  return exact_load::plan_from(clones, gpus, false);
}

std::vector<std::vector<Shares>> shares(const llep::Plan& plan, const LoadMatrix& loads) {
  const Placement placement(loads.experts(), llep::table(plan));
  IdVector<GpuId, std::vector<Shares>> all(loads.sources());
  for (const ExpertId e : ids<ExpertId>(loads.experts())) {
    const GpuId home = llep::owner(e, loads.experts(), loads.sources());
    const auto slot_on = [&](GpuId gpu) {
      return *std::ranges::find_if(placement.slots_of(e),
                                   [&](SlotId slot) { return placement.gpu_of(slot) == gpu; });
    };
    Counts held, clones;
    std::vector<SlotId> slots;
    for (const GpuId rank : all.ids()) held.push_back(loads.at(rank, e));
    for (const llep::Chunk& chunk : plan.chunks[e.index()]) {
      if (chunk.gpu == home) continue;
      clones.push_back(chunk.last - chunk.first);
      slots.push_back(slot_on(chunk.gpu));
    }
    const std::vector<Counts> parts = given(held, clones);
    for (const GpuId rank : all.ids()) {
      Shares mine;
      std::int64_t rest = held[rank.index()];
      for (std::size_t c = 0; c < slots.size(); ++c) {
        const std::int64_t count = parts[c][rank.index()];
        if (count > 0) mine.push_back({slots[c], count});
        rest -= count;
      }
      if (rest > 0 || mine.empty())
        mine.push_back({slot_on(home), std::max<std::int64_t>(rest, 1)});
      all[rank].push_back(std::move(mine));
    }
  }
  return std::move(all).take();
}

}  // namespace echo

namespace {

struct EchoOptions {
  int slots = 1;          // of a rank, for clones
  bool by_hosts = false;  // LoongForge's planner
  double host_cost = 3;   // of it
};

class Echo final : public Spilling {
 public:
  Echo(const PlacementContext& context, const SpillOptions& spill, const EchoOptions& options)
      : Spilling(context, spill), options_(options) {
    for (const GpuId gpu : ids<GpuId>(groups().count() * ep())) {
      hosts_.push_back(groups().host_of(gpu));
    }
  }

 private:
  llep::Plan plan_of(const GroupStep& at) const override {
    const std::vector<std::int64_t> counts = at.loads.per_expert();
    if (!options_.by_hosts) return echo::plan(counts, ep(), options_.slots);
    const auto ranks = static_cast<std::size_t>(ep());
    const auto first = static_cast<std::size_t>(at.group) * ranks;
    return echo::plan_by_hosts(counts, std::span(hosts_).subspan(first, ranks), options_.slots,
                               options_.host_cost);
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    const llep::Plan& plan = plan_now(at);
    if (plan.transfers.empty()) return Spilling::assign(at, std::move(slots));
    return Assignment(std::move(slots), echo::shares(plan, at.loads));
  }

  EchoOptions options_;
  std::vector<int> hosts_;  // [gpu]
};

}  // namespace

// slots: spare ones of a rank (1); planner: greedy (default; with one slot approximate bin packing,
// with more side by side), or sinkhorn, LoongForge's, with host_cost (3): of a way between hosts to
// one on a host. received: keep (default: weights stay until the backward pass) or regather;
// planning_time: of the planner on the GPU, per layer (0 us, unstated).
PlacementMaker read_echo(const YamlMap& params) {
  EchoOptions options;
  options.slots = static_cast<int>(params.integer("slots", {1, 512}, 1));
  options.by_hosts = params.choice("planner", {"greedy", "sinkhorn"}, 0) == 1;
  if (options.by_hosts) options.host_cost = params.number("host_cost", {1, 1000}, 3);
  const SpillOptions spill = read_spill_options(params);
  return [=](const PlacementContext& context) {
    return std::make_unique<Echo>(context, spill, options);
  };
}

}  // namespace moesim
