// SPDX-License-Identifier: Apache-2.0
// The messages of exchanges, and the communicators of the exchanges that are collectives of MPI.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "realhw/mpi/mpi_step.h"
#include "sim/plan/check.h"

namespace moesim {
namespace {

/// MPI counts in int: longer messages go in pieces, which arrive in order.
constexpr std::int64_t longest_piece = std::int64_t{1} << 30;

}  // namespace

/// Makes one communicator for every stream and list of participants: collectives of one
/// communicator must start in the same order on all its ranks, and a stream keeps an order. All
/// ranks walk through the ops in one order, so no ranks wait for each other in a circle.
void MpiStep::make_communicators() {
  MPI_Group world;
  check(MPI_Comm_group(comm_, &world));
  for (const Op& op : plan_.ops) {
    if (op.exchange() == nullptr) continue;
    const std::vector<GpuId>& gpus = op.group.list();
    if (!op.group.contains(program_.rank)) continue;
    const auto [place, added] = group_comms_.try_emplace({op.stream, gpus}, MPI_COMM_NULL);
    if (!added) continue;
    std::vector<int> ranks;
    for (const GpuId gpu : gpus) ranks.push_back(gpu.value);
    MPI_Group group;
    check(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group));
    check(MPI_Comm_create_group(comm_, group, static_cast<int>(op.stream), &place->second));
    check(MPI_Group_free(&group));
  }
  check(MPI_Group_free(&world));
}

void MpiStep::post(std::size_t step, Flight& flight) {
  transport_ == MpiTransport::p2p ? post_messages(step, flight) : post_alltoallv(step, flight);
}

void MpiStep::post_barrier(std::size_t step, Flight& flight) {
  const RankStep& rank_step = program_.steps[step];
  const std::vector<GpuId>& gpus = plan_[rank_step.op].group.list();
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(group_comms_.at({rank_step.stream, gpus}), &request));
  add_request(step, flight, request);
}

void MpiStep::add_request(std::size_t step, Flight& flight, MPI_Request request) {
  requests_.push_back(request);
  request_of_.push_back(step);
  ++flight.open;
}

void MpiStep::post_messages(std::size_t step, Flight& flight) {
  const RankStep& rank_step = program_.steps[step];
  // Exchanges of two streams may be under way between the same ranks: tags keep them apart.
  const int tag = rank_step.op.value % last_tag_;
  const auto post = [&](const Message& message, bool send) {
    for (std::int64_t sent = 0; sent < message.bytes; sent += longest_piece) {
      const auto count = static_cast<int>(std::min(longest_piece, message.bytes - sent));
      std::byte* bytes = at(message.at) + sent;
      MPI_Request request = MPI_REQUEST_NULL;
      check(send ? MPI_Isend(bytes, count, MPI_BYTE, message.peer.value, tag, comm_, &request)
                 : MPI_Irecv(bytes, count, MPI_BYTE, message.peer.value, tag, comm_, &request));
      add_request(step, flight, request);
    }
  };
  // Receives first: a message that finds its receive posted needs no copy.
  for (const Message& message : rank_step.receives_of(flight.round)) post(message, false);
  for (const Message& message : rank_step.sends_of(flight.round)) post(message, true);
}

/// All that a rank sends, or receives, is in one buffer.
void MpiStep::post_alltoallv(std::size_t step, Flight& flight) {
  const RankStep& rank_step = program_.steps[step];
  const std::vector<GpuId>& gpus = plan_[rank_step.op].group.list();
  std::byte* bytes[2] = {nullptr, nullptr};
  for (const int side : {0, 1}) {
    const auto& messages =
        side == 0 ? rank_step.sends_of(flight.round) : rank_step.receives_of(flight.round);
    auto& counts = flight.counts[side];
    auto& offsets = flight.offsets[side];
    counts.assign(gpus.size(), 0);
    offsets.assign(gpus.size(), 0);
    for (const Message& message : messages) {
      if (message.at.offset + message.bytes > std::numeric_limits<int>::max()) {
        throw std::runtime_error(
            fmt::format("{} is too large for MPI_Ialltoallv, which counts in int",
                        describe(plan_, rank_step.op)));
      }
      const auto peer = std::lower_bound(gpus.begin(), gpus.end(), message.peer) - gpus.begin();
      counts[static_cast<std::size_t>(peer)] = static_cast<int>(message.bytes);
      offsets[static_cast<std::size_t>(peer)] = static_cast<int>(message.at.offset);
      bytes[side] = device_.data(message.at.buffer);
    }
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ialltoallv(bytes[0], flight.counts[0].data(), flight.offsets[0].data(), MPI_BYTE,
                       bytes[1], flight.counts[1].data(), flight.offsets[1].data(), MPI_BYTE,
                       group_comms_.at({rank_step.stream, gpus}), &request));
  add_request(step, flight, request);
}

}  // namespace moesim
