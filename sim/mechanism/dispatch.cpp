// SPDX-License-Identifier: Apache-2.0
// Dispatches over a cluster, from those of its EP groups.
#include "sim/mechanism/dispatch.h"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <utility>

#include "sim/mechanism/counted_groups.h"

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

/// Whether the layer's ranks are at most what one group has: a small layer may be evaluated on its
/// own.
bool is_one_group(const EpGroups& groups, const LayerTokens& tokens) {
  return tokens.batch.ranks.size() <= static_cast<std::size_t>(groups.size());
}

}  // namespace

DataType rows_as_stated(const MoeModel& model, std::optional<DataType> gemm_type) {
  DataType gemm = type_of_rows(gemm_type.value_or(model.weights));
  if (gemm == DataType::fp4) gemm = DataType::fp8;  // rows travel in whole bytes
  return size_of(gemm) < size_of(model.activations) ? gemm : model.activations;
}

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
  if (is_one_group(*groups_, tokens)) {
    RowCounts counts = evaluations_[0]->count(tokens);
    compress(counts);
    return counts;
  }
  CountedGroups counted;
  return count(tokens, counted);
}

RowCounts Dispatch::count(const LayerTokens& tokens, CountedGroups& counted) const {
  if (!options_.empty()) return choose(tokens).count(tokens, counted);
  const EpGroups& groups = *groups_;
  RowCounts all;
  all.gpu_count = tokens.assignment.placement().gpus();
  for (int g = 0; g < groups.count(); ++g) {
    GroupPart part = groups.part(tokens.batch, tokens.assignment, g);
    if (const RowCounts* alike = counted.find(groups, g, part)) {
      append(*alike, all);
      continue;
    }
    RowCounts counts = evaluations_[static_cast<std::size_t>(g)]->count(
        {part.batch(), tokens.ids, part.assignment(), groups.gpu(g, GpuId(0)), tokens.choices});
    compress(counts);
    counted.add(groups, g, std::move(part), counts);
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
        {part.batch(), tokens.ids, part.assignment(), groups.gpu(g, GpuId(0)), tokens.choices});
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
  change_shapes([sms](DispatchShape& shape) { shape.sms = sms; });
}

void Dispatch::change_shapes(const std::function<void(DispatchShape&)>& change) {
  change(shape_);
  for (auto& option : options_) option->change_shapes(change);
}

void Dispatch::wrap(const std::function<RowEvaluationPtr(RowEvaluationPtr)>& wrap) {
  for (auto& option : options_) option->wrap(wrap);
  for (RowEvaluationPtr& evaluation : evaluations_) evaluation = wrap(std::move(evaluation));
}

ByteMatrix traffic_among(const std::vector<GpuId>& members, const RowTable& rows, Bytes unit) {
  const std::size_t first = members.front().index();
  const bool whole_block = members.size() == rows.block_size() && rows.first(first) == first &&
                           members.back().index() - first == members.size() - 1;
  if (const auto counts = whole_block ? rows.dense_block(first) : nullptr) {
    return ByteMatrix::of_counts(static_cast<int>(members.size()), counts, unit);
  }
  ByteMatrix traffic(unit);
  std::vector<ByteMatrix::Entry> sent(members.size());
  for (const GpuId from : members) {
    auto next = sent.begin();
    auto member = members.begin();
    rows.for_each(from.index(), [&](std::size_t gpu, std::uint32_t count) {
      const GpuId to(static_cast<std::int64_t>(gpu));
      while (member != members.end() && *member < to) ++member;
      if (member == members.end() || *member != to) {
        throw std::logic_error("rows leave their communicator");
      }
      *next++ = {GpuId(member - members.begin()), count};
    });
    traffic.add_row({sent.begin(), next});
  }
  return traffic;
}

Seconds exchange_time(const RowCounts& counts, const DispatchShape& shape, const EpGroups& groups,
                      Bytes row, bool back) {
  const std::vector<RowTable>& phases = counts.on_wire();
  Seconds time;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    std::deque<ByteMatrix> matrices;
    std::vector<GroupTraffic> traffic;
    for (const auto& members : shape.phases[p].communicators) {
      matrices.push_back(traffic_among(members, phases[p], row));
      traffic.push_back({matrices.back(), members, back});
    }
    time += groups.slowest(traffic);
  }
  return time;
}

}  // namespace moesim
