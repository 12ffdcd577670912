// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/host_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/base/error.h"
#include "sim/plan/label.h"

namespace moesim {
namespace {

OpKey key_of(WorkCell cell, int layer, MovedPart part, Pass pass) {
  return {.kind = OpKind::offload,
          .pass = pass,
          .layer = layer,
          .microbatch = cell.microbatch,
          .chunk = cell.chunk,
          .part = static_cast<int>(part)};
}

/// One matrix of what members move by themselves.
Exchange own_bytes(Bytes unit, const std::vector<std::int64_t>& units) {
  ByteMatrix matrix(unit);
  for (std::size_t m = 0; m < units.size(); ++m) {
    const ByteMatrix::Entry entry{GpuId(static_cast<std::int64_t>(m)),
                                  static_cast<std::uint32_t>(units[m])};
    matrix.add_row(std::span(&entry, 1));
  }
  Exchange exchange{std::move(matrix), {}, false};
  exchange.with_hosts = true;
  return exchange;
}

}  // namespace

std::set<std::pair<int, int>> keeping_last_layer(const Timetable& turns) {
  std::vector<StageWork> works;
  for (const Turn& turn : turns) {
    works.push_back(turn.work);
    if (turn.beside) works.push_back(*turn.beside);
  }
  std::set<std::pair<int, int>> keeping;
  const auto backward = [](const StageWork& work) { return goes_backward(work.kind); };
  const auto first = std::ranges::find_if(works, backward);
  if (first != works.end()) keeping.insert({first->microbatch, first->chunk});
  for (auto work = works.begin(); work != works.end(); ++work) {
    if (work->kind != WorkKind::forward) continue;
    const auto next = std::find_if(work, works.end(), backward);
    const bool own =
        next != works.end() && next->microbatch == work->microbatch && next->chunk == work->chunk;
    if (own) keeping.insert({work->microbatch, work->chunk});
  }
  return keeping;
}

HostCopies::HostCopies(const StageSpace& stage, const Topology& topology, bool joins, bool apart)
    : stage_(stage), topology_(topology), joins_(joins), apart_(apart || !same_links()) {}

/// Whether the links of all GPUs to the memory of their hosts are alike.
bool HostCopies::same_links() const {
  const auto links_of = [&](GpuId own) {
    std::vector<std::pair<double, double>> links;
    const HostRoute* route = topology_.host_route(stage_.gpus()->in_plan(own));
    if (route == nullptr) return links;
    for (const auto* way : {&route->out, &route->back}) {
      for (const LinkId id : *way) {
        const Link& link = topology_.link(id);
        links.emplace_back(link.bandwidth.value, link.latency.value);
      }
    }
    return links;
  };
  const auto first = links_of(GpuId(0));
  return std::ranges::all_of(stage_.everybody(), [&](GpuId own) { return links_of(own) == first; });
}

std::vector<GroupExchange> HostCopies::made(const Moved& moved) const {
  std::vector<GpuId> movers;
  std::vector<std::int64_t> units;
  for (const GpuId own : stage_.everybody()) {
    if (moved.units[own.index()] == 0) continue;
    movers.push_back(own);
    units.push_back(moved.units[own.index()]);
  }
  std::vector<GroupExchange> result;
  if (movers.empty()) return result;
  if (!joins_) {
    for (std::size_t m = 0; m < movers.size(); ++m) {
      result.push_back({Group(std::vector{movers[m]}), own_bytes(moved.unit, {units[m]})});
    }
    return result;
  }
  Exchange exchange = own_bytes(moved.unit, units);
  const bool equal = std::ranges::all_of(units, [&](auto each) { return each == units.front(); });
  if (movers.size() > 1 && (apart_ || !equal || movers.size() < stage_.everybody().size())) {
    std::vector<std::vector<GpuId>> each;
    for (std::size_t m = 0; m < movers.size(); ++m) {
      each.push_back({GpuId(static_cast<std::int64_t>(m))});
    }
    exchange.collectives = std::make_shared<const Collectives>(std::move(each), true);
  }
  const bool all = movers.size() == stage_.everybody().size();
  result.push_back({all ? stage_.everybody() : Group(std::move(movers)), std::move(exchange)});
  return result;
}

const std::vector<GroupExchange>& HostCopies::exchanges_of(const Moved& moved) {
  const auto [known, fresh] = made_.try_emplace({moved.unit.value, moved.units});
  if (fresh) known->second = made(moved);
  return known->second;
}

void HostCopies::store(OpChain& chain, WorkCell cell, int layer, MovedPart part,
                       const Moved& moved) {
  if (moved.unit == Bytes(0)) return;
  Stored stored{exchanges_of(moved), {}};
  const OpKey key = key_of(cell, layer, part, Pass::forward);
  const Mark now = chain.mark();
  for (const auto& [group, exchange] : stored.exchanges) {
    stored.ops.push_back(chain.detached(
        {type_label(key.type()), key, Stream::to_host, group, waits_of(group, now), exchange}));
  }
  stored_[{cell.microbatch, cell.chunk, layer, part}] = std::move(stored);
}

std::vector<OpId> HostCopies::load(OpChain& chain, WorkCell cell, int layer, MovedPart part) {
  std::vector<OpId> ops;
  const auto known = stored_.find({cell.microbatch, cell.chunk, layer, part});
  if (known == stored_.end()) return ops;
  const OpKey key = key_of(cell, layer, part, Pass::backward);
  const Mark& ended = ended_[static_cast<std::size_t>(part)];
  for (std::size_t e = 0; e < known->second.exchanges.size(); ++e) {
    auto [group, exchange] = known->second.exchanges[e];
    exchange.transposed = true;
    std::vector<OpId> after = ended.empty() ? std::vector<OpId>() : waits_of(group, ended);
    after.push_back(known->second.ops[e]);
    ops.push_back(chain.detached(
        {type_label(key.type()), key, Stream::from_host, group, std::move(after), exchange}));
  }
  stored_.erase(known);
  return ops;
}

void check_offload(const IterationSpec& spec, const Topology& topology) {
  if (spec.offload.empty()) return;
  for (const GpuId gpu : topology.all_gpus()) {
    if (topology.host_route(gpu) != nullptr) continue;
    throw error_in(spec.places.offload > 0 ? spec.places.file : "",
                   fmt::format("'offload: {}' on topology '{}', where GPU {} has no link to the "
                               "memory of its host",
                               text_of(spec.offload), topology.name(), gpu.value),
                   "add 'pcie' with NICs or sockets, or 'c2c', to its node; or offload: none",
                   spec.places.offload);
  }
}

}  // namespace moesim
