// SPDX-License-Identifier: Apache-2.0
#include "realhw/mpi/mpi_step.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <stdexcept>

#include "sim/plan/check.h"

namespace moesim {
namespace {

/// MPI counts in int: longer messages go in pieces, which arrive in order.
constexpr std::int64_t longest_piece = std::int64_t{1} << 30;

void keep_for(std::int64_t nanoseconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
}

std::size_t bytes_of(const std::vector<Parcel>& parcels) {
  std::size_t bytes = 0;
  for (const Parcel& parcel : parcels) bytes += static_cast<std::size_t>(parcel.bytes.value);
  return bytes;
}

}  // namespace

MpiStep::MpiStep(const RealStep& step, GpuId rank, Transport transport, Seconds timeout)
    : state_(step, rank),
      plan_(step.plan),
      transport_(transport),
      timeout_(timeout),
      order_(plan_, rank) {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
  int* largest = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found));
  last_tag_ = found != 0 ? *largest : 32767;
  for (const Lane lane : {Lane::compute, Lane::copy}) {
    kernels_[static_cast<std::size_t>(lane)] = std::make_unique<KernelThread>();
  }
  if (transport == Transport::alltoallv) make_communicators();
}

MpiStep::~MpiStep() {
  if (std::uncaught_exceptions() > 0) return;  // the others may never free theirs
  for (auto& [key, comm] : group_comms_) MPI_Comm_free(&comm);
  MPI_Comm_free(&comm_);
}

/// One for every lane and list of participants, so that the collectives of one communicator start
/// in the same order everywhere. All ranks walk through the ops in one order: nobody waits in a
/// circle.
void MpiStep::make_communicators() {
  MPI_Group world;
  check(MPI_Comm_group(comm_, &world));
  for (const Op& op : plan_.ops) {
    if (op.exchange() == nullptr) continue;
    const auto& gpus = op.exchange()->participants;
    if (!std::binary_search(gpus.begin(), gpus.end(), state_.rank())) continue;
    const auto [place, added] = group_comms_.try_emplace({op.lane, gpus}, MPI_COMM_NULL);
    if (!added) continue;
    std::vector<int> ranks;
    for (const GpuId gpu : gpus) ranks.push_back(gpu.value);
    MPI_Group group;
    check(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group));
    check(MPI_Comm_create_group(comm_, group, static_cast<int>(op.lane), &place->second));
    check(MPI_Group_free(&group));
  }
  check(MPI_Group_free(&world));
}

std::vector<Stamp> MpiStep::run(bool verify) {
  state_.reset(verify);
  order_.reset();
  stamps_.assign(plan_.ops.size(), {});
  check(MPI_Barrier(comm_));
  last_progress_ = Clock::now();
  while (!order_.done()) {
    bool moved = false;
    for (const OpId op : order_.take_ready()) {
      start(op);
      moved = true;
    }
    moved = take_kernels() || moved;
    moved = take_messages() || moved;
    if (moved) {
      last_progress_ = Clock::now();
    } else {
      check_progress();
      sched_yield();  // there may be more ranks than cores
    }
  }
  return stamps_;
}

void MpiStep::start(OpId op) {
  plan_[op].compute() != nullptr ? start_kernel(op) : start_exchange(op);
}

void MpiStep::start_kernel(OpId op) {
  const auto* host = std::get_if<HostWork>(&plan_[op].compute()->kernel);
  kernels_[static_cast<std::size_t>(plan_[op].lane)]->submit(
      op, [this, op, host] { host != nullptr ? keep_for(host->nanoseconds) : state_.compute(op); });
}

void MpiStep::start_exchange(OpId op) {
  stamps_[op.index()].start = Clock::now();
  Flight& flight = flights_[op];
  const RankParcels& parcels = state_.parcels(op);
  flight.sent = buffers_.take(bytes_of(parcels.sent));
  flight.received = buffers_.take(bytes_of(parcels.received));
  std::byte* at = flight.sent.bytes.get();
  for (const Parcel& parcel : parcels.sent) {
    state_.pack(op, parcel, at);
    at += parcel.bytes.value;
  }
  transport_ == Transport::p2p ? post_messages(op, flight) : post_alltoallv(op, flight);
  if (flight.open == 0) end_exchange(op);
}

void MpiStep::add_request(OpId op, Flight& flight, MPI_Request request) {
  requests_.push_back(request);
  request_of_.push_back(op);
  ++flight.open;
}

void MpiStep::post_messages(OpId op, Flight& flight) {
  const int tag = op.value % last_tag_;
  const std::byte* stays = nullptr;  // what the rank sends to itself
  const auto post = [&](const std::vector<Parcel>& parcels, std::byte* bytes, bool send) {
    for (const Parcel& parcel : parcels) {
      const std::int64_t size = parcel.bytes.value;
      if (parcel.from == parcel.to) {
        if (send) stays = bytes;
      }
      for (std::int64_t at = 0; parcel.from != parcel.to && at < size; at += longest_piece) {
        const auto count = static_cast<int>(std::min(longest_piece, size - at));
        MPI_Request request = MPI_REQUEST_NULL;
        check(
            send ? MPI_Isend(bytes + at, count, MPI_BYTE, parcel.to.value, tag, comm_, &request)
                 : MPI_Irecv(bytes + at, count, MPI_BYTE, parcel.from.value, tag, comm_, &request));
        add_request(op, flight, request);
      }
      bytes += size;
    }
  };
  const RankParcels& parcels = state_.parcels(op);
  post(parcels.received, flight.received.bytes.get(), false);
  post(parcels.sent, flight.sent.bytes.get(), true);
  std::byte* at = flight.received.bytes.get();
  for (const Parcel& parcel : parcels.received) {
    if (parcel.from == parcel.to && stays != nullptr) {
      std::memcpy(at, stays, static_cast<std::size_t>(parcel.bytes.value));
    }
    at += parcel.bytes.value;
  }
}

void MpiStep::post_alltoallv(OpId op, Flight& flight) {
  const auto& gpus = plan_[op].exchange()->participants;
  const RankParcels& parcels = state_.parcels(op);
  for (const bool send : {true, false}) {
    auto& counts = flight.counts[send ? 0 : 1];
    auto& offsets = flight.offsets[send ? 0 : 1];
    counts.assign(gpus.size(), 0);
    offsets.assign(gpus.size(), 0);
    const auto& list = send ? parcels.sent : parcels.received;
    if (bytes_of(list) > std::numeric_limits<int>::max()) {
      throw std::runtime_error(fmt::format(
          "{} is too large for MPI_Ialltoallv, which counts in int", describe(plan_, op)));
    }
    int at = 0;
    for (const Parcel& parcel : list) {
      const GpuId peer = send ? parcel.to : parcel.from;
      const auto i =
          static_cast<std::size_t>(std::lower_bound(gpus.begin(), gpus.end(), peer) - gpus.begin());
      counts[i] = static_cast<int>(parcel.bytes.value);
      offsets[i] = at;
      at += counts[i];
    }
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ialltoallv(flight.sent.bytes.get(), flight.counts[0].data(), flight.offsets[0].data(),
                       MPI_BYTE, flight.received.bytes.get(), flight.counts[1].data(),
                       flight.offsets[1].data(), MPI_BYTE, group_comms_.at({plan_[op].lane, gpus}),
                       &request));
  add_request(op, flight, request);
}

void MpiStep::end(OpId op, Clock::time_point at) {
  stamps_[op.index()].end = at;
  order_.end(op);
}

void MpiStep::end_exchange(OpId op) {
  const Clock::time_point at = Clock::now();
  auto flight = flights_.extract(op);
  const std::byte* bytes = flight.mapped().received.bytes.get();
  for (const Parcel& parcel : state_.parcels(op).received) {
    state_.unpack(op, parcel, bytes);
    bytes += parcel.bytes.value;
  }
  buffers_.give_back(std::move(flight.mapped().sent));
  buffers_.give_back(std::move(flight.mapped().received));
  end(op, at);
}

bool MpiStep::take_kernels() {
  bool moved = false;
  for (const auto& kernels : kernels_) {
    if (!kernels) continue;
    for (const KernelThread::Ended& ended : kernels->take_ended()) {
      if (ended.error) std::rethrow_exception(ended.error);
      stamps_[ended.op.index()].start = ended.start;
      end(ended.op, ended.end);
      moved = true;
    }
  }
  return moved;
}

bool MpiStep::take_messages() {
  if (requests_.empty()) return false;
  completed_.resize(requests_.size());
  int count = 0;
  check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                     completed_.data(), MPI_STATUSES_IGNORE));
  if (count == MPI_UNDEFINED || count == 0) return false;
  std::vector<OpId> ended;
  for (int i = 0; i < count; ++i) {
    const OpId op = request_of_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])];
    if (--flights_.at(op).open == 0) ended.push_back(op);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    request_of_[kept++] = request_of_[i];
  }
  requests_.resize(kept);
  request_of_.resize(kept);
  for (const OpId op : ended) end_exchange(op);
  return true;
}

void MpiStep::check_progress() {
  for (const auto& kernels : kernels_) {
    if (kernels && kernels->busy()) return;
  }
  const std::chrono::duration<double> idle = Clock::now() - last_progress_;
  if (idle.count() < timeout_.value) return;
  const OpId op = order_.open().front();
  throw std::runtime_error(fmt::format("rank {}, {} of layer {}: nothing has moved for {} s",
                                       state_.rank().value, describe(plan_, op), plan_[op].layer,
                                       timeout_.value));
}

}  // namespace moesim
