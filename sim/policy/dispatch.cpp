// SPDX-License-Identifier: Apache-2.0
// Dispatches over a cluster, from those of its EP groups.
#include "sim/policy/dispatch.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace moesim {
namespace {

/// The shape of the cluster: that of every group, with the communicators of all of them.
DispatchShape lifted(const EpGroups& groups, const std::vector<DispatchShape>& of_group) {
  DispatchShape all = of_group.front();
  for (std::size_t p = 0; p < all.phases.size(); ++p) {
    std::vector<const Communicators*> communicators;
    for (const DispatchShape& shape : of_group) {
      communicators.push_back(&shape.phases[p].communicators);
    }
    all.phases[p].communicators = groups.lifted(communicators);
  }
  return all;
}

/// Whether shapes are equal up to communicators.
bool alike(DispatchShape a, DispatchShape b) {
  for (PhaseShape& phase : a.phases) phase.communicators.clear();
  for (PhaseShape& phase : b.phases) phase.communicators.clear();
  return a == b;
}

/// Adds the rows among the ranks of the next group.
void append(std::vector<RowTable> of_group, std::vector<RowTable>& all) {
  all.resize(of_group.size());
  for (std::size_t p = 0; p < of_group.size(); ++p) all[p].append(std::move(of_group[p]));
}

void append(RowCounts of_group, RowCounts& all) {
  append(std::move(of_group.phases), all.phases);
  append(std::move(of_group.padded_phases), all.padded_phases);
  std::ranges::copy(of_group.slots, std::back_inserter(all.slots));
  std::ranges::copy(of_group.padded_slots, std::back_inserter(all.padded_slots));
}

void compress(RowCounts& counts) {
  for (RowTable& rows : counts.phases) rows.compress();
  for (RowTable& rows : counts.padded_phases) rows.compress();
}

/// Whether ranks nest alike: a mechanism knows nothing else of a group.
bool nest_alike(const RankSpace& a, const RankSpace& b) {
  if (a.depth() != b.depth() || a.hosts().groups() != b.hosts().groups()) return false;
  for (int i = 0; i < a.depth(); ++i) {
    const RankLevel &of_a = a.level(i), &of_b = b.level(i);
    if (of_a.groups() != of_b.groups() || of_a.across() != of_b.across()) return false;
  }
  return true;
}

/// Whether two groups have the same tokens, rank by rank, and slots for them: a trace that repeats
/// gives them to many.
bool hold_alike(const EpGroups& groups, const LayerTokens& tokens, int a, int b) {
  const auto held = [&](int group, int rank) -> const std::vector<TokenRun>& {
    return tokens.batch.ranks[groups.gpu(group, GpuId(rank)).index()];
  };
  const auto same_run = [](const TokenRun& x, const TokenRun& y) {
    return x.first == y.first && x.count == y.count;
  };
  for (int r = 0; r < groups.size(); ++r) {
    if (!std::ranges::equal(held(a, r), held(b, r), same_run)) return false;
  }
  const Assignment& assignment = tokens.assignment;
  const Placement& placement = assignment.placement();
  const int behind = placement.first_slot(groups.gpu(b, GpuId(0))).value -
                     placement.first_slot(groups.gpu(a, GpuId(0))).value;
  for (int r = 0; r < groups.size(); ++r) {
    const GpuId of_a = groups.gpu(a, GpuId(r)), of_b = groups.gpu(b, GpuId(r));
    if (placement.slots_on(of_a) != placement.slots_on(of_b)) return false;
    for (int i = 0; i < placement.slots_on(of_a); ++i) {
      const SlotId slot(placement.first_slot(of_a).value + i);
      if (placement.expert_in(slot) != placement.expert_in(SlotId(slot.value + behind))) {
        return false;
      }
    }
    for (int e = 0; e < placement.experts(); ++e) {
      const ExpertId expert(e);
      if (assignment.slot(of_a, expert).value + behind != assignment.slot(of_b, expert).value) {
        return false;
      }
      if (!assignment.split()) continue;
      const auto same_share = [&](const Share& x, const Share& y) {
        return x.slot.value + behind == y.slot.value && x.count == y.count;
      };
      if (!std::ranges::equal(assignment.shares(of_a, expert), assignment.shares(of_b, expert),
                              same_share)) {
        return false;
      }
    }
  }
  return true;
}

/// Whether the layer's ranks are no more than one group has: a small layer may be evaluated on its
/// own.
bool is_one_group(const EpGroups& groups, const LayerTokens& tokens) {
  return tokens.batch.ranks.size() <= static_cast<std::size_t>(groups.size());
}

}  // namespace

Dispatch::Dispatch(EpGroups groups, const std::vector<DispatchShape>& shapes,
                   std::vector<RowEvaluationPtr> evaluations)
    : groups_(std::move(groups)),
      shape_(lifted(*groups_, shapes)),
      evaluations_(std::move(evaluations)) {
  for (const DispatchShape& shape : shapes) {
    if (alike(shape, shapes[0])) continue;
    throw std::logic_error("EP groups whose dispatches differ in more than communicators");
  }
}

Dispatch::Dispatch(std::vector<std::unique_ptr<Dispatch>> options, Rule rule)
    : shape_(options.at(0)->shape()), options_(std::move(options)), rule_(std::move(rule)) {}

const Dispatch& Dispatch::choose(const LayerTokens& tokens) const {
  return options_.empty() ? *this : *options_[rule_(tokens)];
}

const DispatchShape& Dispatch::shape() const {
  if (options_.empty()) return shape_;
  throw std::logic_error("the shape of a dispatch that is chosen for every layer");
}

RowCounts Dispatch::count(const LayerTokens& tokens) const {
  if (!options_.empty()) return choose(tokens).count(tokens);
  const EpGroups& groups = *groups_;
  if (is_one_group(groups, tokens)) return evaluations_[0]->count(tokens);
  struct Counted {
    int group;
    RowCounts counts;
  };
  constexpr std::size_t most_kept = 64;  // groups that others may be like
  std::vector<Counted> kept;
  RowCounts all;
  all.gpu_count = tokens.assignment.placement().gpus();
  for (int g = 0; g < groups.count(); ++g) {
    const auto like = std::ranges::find_if(kept, [&](const Counted& other) {
      return hold_alike(groups, tokens, other.group, g) &&
             nest_alike(groups.ranks(other.group), groups.ranks(g));
    });
    if (like != kept.end()) {
      append(like->counts, all);
      continue;
    }
    const GroupPart part = groups.part(tokens.batch, tokens.assignment, g);
    RowCounts counts = evaluations_[static_cast<std::size_t>(g)]->count(
        {part.batch(), tokens.ids, part.assignment(), groups.gpu(g, GpuId(0))});
    compress(counts);
    if (kept.size() < most_kept) kept.push_back({g, counts});
    append(std::move(counts), all);
  }
  return all;
}

std::vector<std::vector<RowMove>> Dispatch::rows(const LayerTokens& tokens) const {
  if (!options_.empty()) return choose(tokens).rows(tokens);
  const EpGroups& groups = *groups_;
  if (is_one_group(groups, tokens)) return evaluations_[0]->rows(tokens);
  std::vector<std::vector<RowMove>> all(shape_.phases.size());
  std::int64_t before = 0;  // tokens of the groups before
  for (int g = 0; g < groups.count(); ++g) {
    const GroupPart part = groups.part(tokens.batch, tokens.assignment, g);
    auto rows = evaluations_[static_cast<std::size_t>(g)]->rows(
        {part.batch(), tokens.ids, part.assignment(), groups.gpu(g, GpuId(0))});
    for (std::size_t p = 0; p < rows.size(); ++p) {
      for (RowMove& row : rows[p]) {
        row.from = groups.gpu(g, row.from);
        row.to = groups.gpu(g, row.to);
        row.token = TokenId(row.token.value + before);
        all[p].push_back(row);
      }
    }
    before += part.batch().tokens();
  }
  return all;
}

void Dispatch::set_sms(int sms) {
  shape_.sms = sms;
  for (auto& option : options_) option->set_sms(sms);
}

void Dispatch::wrap(const std::function<RowEvaluationPtr(RowEvaluationPtr)>& wrap) {
  for (auto& option : options_) option->wrap(wrap);
  for (RowEvaluationPtr& evaluation : evaluations_) evaluation = wrap(std::move(evaluation));
}

ByteMatrix traffic_among(const std::vector<GpuId>& members, const RowTable& rows, Bytes unit) {
  ByteMatrix traffic(unit);
  std::vector<ByteMatrix::Entry> sent;
  for (const GpuId from : members) {
    sent.clear();
    auto member = members.begin();
    rows.for_each(from.index(), [&](std::size_t gpu, std::uint32_t count) {
      const GpuId to(static_cast<std::int64_t>(gpu));
      while (member != members.end() && *member < to) ++member;
      if (member == members.end() || *member != to) {
        throw std::logic_error("rows leave their communicator");
      }
      sent.push_back({GpuId(member - members.begin()), count});
    });
    traffic.add_row(sent);
  }
  return traffic;
}

}  // namespace moesim
