// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/p2p_schedule.h"

#include <bit>
#include <numeric>
#include <optional>

namespace moesim {
namespace {

constexpr int group_size = 8;  // NCCL_P2P_SCHEDULE_GROUP_SIZE

}  // namespace

std::vector<int> p2p_group_deltas(int groups) {
  const auto rounds = static_cast<int>(std::bit_ceil(static_cast<unsigned>(groups)));
  std::vector<int> deltas;
  int delta = 0;
  for (int k = 0; k < rounds; ++k) {
    if (delta < groups) deltas.push_back(delta);
    delta = (delta + k + 1) % rounds;
  }
  return deltas;
}

P2pSchedule::P2pSchedule(const std::vector<int>& nodes) : place_(nodes.size()) {
  std::map<int, std::vector<int>> ranks_of;
  for (std::size_t r = 0; r < nodes.size(); ++r) ranks_of[nodes[r]].push_back(static_cast<int>(r));
  int size = ranks_of.size() == 1 ? static_cast<int>(nodes.size()) : group_size;
  for (const auto& [node, ranks] : ranks_of) size = std::gcd(size, static_cast<int>(ranks.size()));
  for (const auto& [node, ranks] : ranks_of) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int local = static_cast<int>(i) % size;
      if (local == 0) groups_.emplace_back();
      place_[static_cast<std::size_t>(ranks[i])] = {static_cast<int>(groups_.size()) - 1, local};
      groups_.back().push_back(ranks[i]);
    }
  }
  deltas_ = p2p_group_deltas(static_cast<int>(groups_.size()));
}

int P2pSchedule::receiver(int rank, int round) const {
  const Place& place = place_[static_cast<std::size_t>(rank)];
  const auto size = static_cast<int>(groups_.front().size());
  const int delta = deltas_[static_cast<std::size_t>(round / size)];
  const int group = (place.group + delta) % static_cast<int>(groups_.size());
  const int local = (place.local + round) % size;
  return groups_[static_cast<std::size_t>(group)][static_cast<std::size_t>(local)];
}

PeerOrder::PeerOrder(const GroupTraffic& traffic, const std::vector<int>& nodes, int peers) {
  first_ = traffic.members.front();
  gpus_.resize(traffic.members.back().index() - first_.index() + 1);
  std::optional<P2pSchedule> schedule;
  if (peers > 0) schedule.emplace(nodes);
  const ByteMatrix moved = traffic.moved();
  std::vector<int> round_of(nodes.size());  // in which the member is sent to
  for (int rank = 0; rank < moved.ranks(); ++rank) {
    for (int round = 0; schedule && round < schedule->rounds(); ++round) {
      round_of[static_cast<std::size_t>(schedule->receiver(rank, round))] = round;
    }
    for (const ByteMatrix::Entry& entry : moved.row(GpuId(rank))) {
      if (entry.to.value == rank && !traffic.with_hosts) continue;
      const int batch = schedule ? round_of[entry.to.index()] / peers : 0;
      const Pair pair(traffic.gpu(GpuId(rank)), traffic.gpu(entry.to));
      at(pair.first).batches[batch].push_back(pair);
      if (pair.first != pair.second) at(pair.second).batches[batch].push_back(pair);
    }
  }
}

bool PeerOrder::serves(GpuId gpu, int batch) const {
  const Gpu& state = at(gpu);
  return state.left > 0 && state.batch == batch;
}

/// The pairs of the GPU's first batch whose other end serves that batch already.
void PeerOrder::enter_batch(GpuId gpu, std::vector<Pair>& starting) {
  Gpu& state = at(gpu);
  if (state.batches.empty()) return;
  const auto& [batch, pairs] = *state.batches.begin();
  state.left = pairs.size();
  state.batch = batch;
  starting.reserve(starting.size() + pairs.size());
  for (const Pair& pair : pairs) {
    if (serves(pair.first == gpu ? pair.second : pair.first, batch)) starting.push_back(pair);
  }
}

std::vector<PeerOrder::Pair> PeerOrder::join(GpuId gpu) {
  std::vector<Pair> starting;
  at(gpu).joined = true;
  enter_batch(gpu, starting);
  return starting;
}

std::vector<PeerOrder::Pair> PeerOrder::end(const Pair& pair) {
  std::vector<Pair> starting;
  const bool alone = pair.first == pair.second;  // with the memory of its host
  for (const GpuId gpu : {pair.first, pair.second}) {
    if (alone && at(gpu).batches.empty()) continue;
    Gpu& state = at(gpu);
    if (--state.left > 0) continue;
    state.batches.erase(state.batches.begin());
    enter_batch(gpu, starting);
  }
  return starting;
}

bool PeerOrder::done(GpuId gpu) const {
  const Gpu& state = at(gpu);
  return state.joined && state.batches.empty();
}

}  // namespace moesim
