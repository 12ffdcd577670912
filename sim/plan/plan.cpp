// SPDX-License-Identifier: Apache-2.0
// The order that streams and waits give the ops of a plan.
#include "sim/plan/plan.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>

#include "sim/base/error.h"
#include "sim/plan/check.h"

namespace moesim {

const char* name_of(Stream stream) {
  static constexpr std::array<const char*, stream_count> names = {
      "compute",   "ep",        "param", "copy",    "ep-2",      "dp",
      "tp",        "cp",        "stash", "to-host", "from-host", "pp-down",
      "pp-down-2", "pp-down-3", "pp-up", "pp-up-2", "pp-up-3"};
  return names.at(static_cast<std::size_t>(stream));
}

bool runs_kernels(Stream stream) {
  return stream == Stream::compute || stream == Stream::copy || stream == Stream::stash;
}

bool carries_tokens(Stream stream) { return stream == Stream::ep || stream == Stream::ep_2; }

bool carries_parameters(Stream stream) { return stream == Stream::param || stream == Stream::dp; }

bool copies_to_hosts(Stream stream) {
  return stream == Stream::to_host || stream == Stream::from_host;
}

bool is_between_stages(Stream stream) { return stream >= Stream::pp_down; }

const char* name_of(Stage stage) {
  switch (stage) {
    case Stage::dispatch:
      return "dispatch";
    case Stage::experts:
      return "experts";
    case Stage::combine:
      return "combine";
    case Stage::other:
      return "other";
    case Stage::gather:
      return "gather";
    case Stage::reduce:
      return "reduce";
    case Stage::migrate:
      return "migrate";
  }
  return "";
}

Kernels::Kernels() {
  static const auto nothing = std::make_shared<const std::vector<Kernel>>(1, Kernel(MemoryBound()));
  each_ = nothing;
}

Kernels::Kernels(Kernel all) : Kernels(std::vector<Kernel>{std::move(all)}) {}

Kernels::Kernels(std::vector<Kernel> each) {
  const bool equal = std::all_of(each.begin(), each.end(),
                                 [&](const Kernel& kernel) { return kernel == each.front(); });
  if (equal) each = std::vector<Kernel>{std::move(each.front())};
  each_ = std::make_shared<const std::vector<Kernel>>(std::move(each));
}

Collectives::Collectives(std::vector<std::vector<GpuId>> each, bool are_apart)
    : members(std::move(each)), apart(are_apart) {
  std::size_t places = 0;
  for (const auto& list : members) places += list.size();
  of.resize(places);
  for (std::size_t c = 0; c < members.size(); ++c) {
    for (std::size_t m = 0; m < members[c].size(); ++m) {
      of.at(members[c][m].index()) = {static_cast<std::int32_t>(c), static_cast<std::int32_t>(m)};
    }
  }
}

OpId Plan::add(Op op) {
  ops.push_back(std::move(op));
  return OpId(static_cast<std::int64_t>(ops.size()) - 1);
}

std::vector<std::vector<OpId>> dependencies(const Plan& plan) {
  const OpId none(-1);
  std::vector<std::vector<OpId>> before(plan.ops.size());
  std::vector<OpId> last(static_cast<std::size_t>(plan.gpus) * stream_count, none);
  std::vector<OpId> listed_for(plan.ops.size(), none);  // the last op that each op was listed for
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const OpId id(static_cast<std::int64_t>(i));
    const auto list = [&](OpId earlier) {
      if (earlier == none || listed_for[earlier.index()] == id) return;
      listed_for[earlier.index()] = id;
      before[i].push_back(earlier);
    };
    for (const OpId earlier : op.after) list(earlier);
    for (const GpuId gpu : op.group) {
      OpId& tail = last[gpu.index() * stream_count + static_cast<std::size_t>(op.stream)];
      list(tail);
      tail = id;
    }
    std::sort(before[i].begin(), before[i].end());
  }
  return before;
}

namespace {

using Edges = std::vector<std::vector<OpId>>;

/// Kahn's algorithm; ops on or behind a cycle are left out.
std::vector<OpId> kahn(const Edges& before) {
  Edges followers(before.size());
  std::vector<std::size_t> open(before.size());
  std::priority_queue<OpId, std::vector<OpId>, std::greater<>> ready;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const OpId id(static_cast<std::int64_t>(i));
    open[i] = before[i].size();
    if (open[i] == 0) ready.push(id);
    for (const OpId earlier : before[i]) followers[earlier.index()].push_back(id);
  }
  std::vector<OpId> order;
  order.reserve(before.size());
  while (!ready.empty()) {
    const OpId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (const OpId follower : followers[id.index()]) {
      if (--open[follower.index()] == 0) ready.push(follower);
    }
  }
  return order;
}

/// Ops of one cycle, each followed by one that it waits for; `done` lists all ops that can run.
std::vector<OpId> find_cycle(const Edges& before, const std::vector<OpId>& done) {
  std::vector<char> runs(before.size());
  for (const OpId id : done) runs[id.index()] = 1;
  const auto stuck = [&](OpId id) { return runs[id.index()] == 0; };
  OpId at(std::find(runs.begin(), runs.end(), 0) - runs.begin());
  std::vector<OpId> walk;
  std::vector<std::size_t> step(before.size());  // 1 + position in the walk, 0 for none
  while (step[at.index()] == 0) {
    walk.push_back(at);
    step[at.index()] = walk.size();
    at = *std::find_if(before[at.index()].begin(), before[at.index()].end(), stuck);
  }
  walk.erase(walk.begin(), walk.begin() + static_cast<std::ptrdiff_t>(step[at.index()]) - 1);
  std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());
  return walk;
}

std::string describe_cycle(const Plan& plan, const std::vector<OpId>& cycle) {
  const std::size_t shown = 6;
  std::string text = describe(plan, cycle[0]) + " waits for itself";
  if (cycle.size() == 1) return text;
  text += ": it waits for ";
  for (std::size_t i = 1; i < std::min(cycle.size(), shown); ++i) {
    text += describe(plan, cycle[i]) + ", which waits for ";
  }
  if (cycle.size() > shown) text += std::to_string(cycle.size() - shown) + " more, which wait for ";
  return text + "op " + std::to_string(cycle[0].value);
}

/// Whether the plan's own order is one in which every op follows what it waits for, as streams do:
/// it then is the order that takes the lowest id first, and needs no search.
bool waits_look_back(const Plan& plan) {
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const auto& after = plan[id].after;
    if (std::any_of(after.begin(), after.end(), [&](OpId other) { return other >= id; })) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<PlanMistake> find_cycle(const Plan& plan) {
  if (waits_look_back(plan)) return std::nullopt;
  const Edges before = dependencies(plan);
  const std::vector<OpId> order = kahn(before);
  if (order.size() == before.size()) return std::nullopt;
  const std::vector<OpId> cycle = find_cycle(before, order);
  return PlanMistake{cycle[0], describe_cycle(plan, cycle)};
}

std::vector<OpId> topological_order(const Plan& plan) {
  if (waits_look_back(plan)) {
    std::vector<OpId> order(plan.ops.size());
    for (OpId id(0); id.index() < order.size(); ++id.value) order[id.index()] = id;
    return order;
  }
  const Edges before = dependencies(plan);
  std::vector<OpId> order = kahn(before);
  if (order.size() != before.size()) {
    throw Error(describe_cycle(plan, find_cycle(before, order)));
  }
  return order;
}

}  // namespace moesim
