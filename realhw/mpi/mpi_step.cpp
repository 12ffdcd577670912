// SPDX-License-Identifier: Apache-2.0
#include "realhw/mpi/mpi_step.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>

#include "realhw/program/compile.h"
#include "realhw/program/op_text.h"

namespace moesim {
namespace {

// Ranks that leave a barrier first would fill links with their first exchange, behind which the
// barrier's last messages wait.
constexpr auto settling = std::chrono::milliseconds(2);

/// Rests for 1/32 of the time waited so far, up to a limit. There may be more ranks than cores, and
/// a rank that polls keeps others from computing and sending; a short wait must stay short, though.
void rest(Clock::duration waited) {
  constexpr auto longest = std::chrono::microseconds(200);
  const auto time = std::min<Clock::duration>(waited / 32, longest);
  if (time < std::chrono::microseconds(2)) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(time);
  }
}

}  // namespace

MpiStep::MpiStep(const RealStep& step, GpuId rank, const MpiOptions& options)
    : step_(step),
      plan_(step.plan),
      program_(compile(step, rank)),
      transport_(options.transport),
      together_(options.together),
      timeout_(options.timeout),
      drill_(options.fault, plan_, rank),
      order_(program_.steps),
      step_of_(plan_.ops.size()) {
  // Every rank checks the fault, so that all of them refuse one that strikes nothing.
  if (options.fault) check_fault(*options.fault, plan_, compile(step, options.fault->rank));
  device_.load(program_);
  for (std::size_t i = 0; i < program_.steps.size(); ++i) {
    step_of_[program_.steps[i].op.index()] = i;
  }
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
  int* largest = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found));
  last_tag_ = found != 0 ? *largest : 32767;
  for (int stream = 0; stream < stream_count; ++stream) {
    if (!runs_kernels(static_cast<Stream>(stream))) continue;
    kernels_[static_cast<std::size_t>(stream)] = std::make_unique<KernelThread>();
  }
  if (transport_ == MpiTransport::alltoallv || together_) make_communicators();
}

MpiStep::~MpiStep() {
  if (std::uncaught_exceptions() > 0) return;  // the others may never free theirs
  for (auto& [key, comm] : group_comms_) MPI_Comm_free(&comm);
  MPI_Comm_free(&comm_);
}

/// One loop starts what may start and collects what has ended. Kernels run on threads of their own,
/// so that messages of all streams progress meanwhile.
std::vector<Stamp> MpiStep::run(bool verify) {
  verify_ = verify;
  runs_ = verify ? 1 : runs_ + 1;
  device_.reset(verify);
  order_.reset();
  stamps_.assign(plan_.ops.size(), {});
  check(MPI_Barrier(comm_));
  std::this_thread::sleep_for(settling);
  last_progress_ = Clock::now();
  while (!order_.done()) {
    bool moved = false;
    for (const std::size_t step : order_.take_ready()) {
      start(step);
      moved = true;
    }
    moved = take_kernels() || moved;
    moved = take_messages() || moved;
    if (moved) {
      last_progress_ = Clock::now();
    } else {
      check_progress();
      rest(Clock::now() - last_progress_);
    }
  }
  return stamps_;
}

void MpiStep::start(std::size_t step) {
  const RankStep& rank_step = program_.steps[step];
  if (plan_[rank_step.op].kernels() == nullptr) return start_exchange(step);
  kernels_[static_cast<std::size_t>(rank_step.stream)]->submit(rank_step.op, [this, &rank_step] {
    drill_.at_start(rank_step);
    run_calls(rank_step.before, rank_step);
    run_calls(rank_step.after, rank_step);
  });
}

void MpiStep::run_calls(const std::vector<Call>& calls, const RankStep& step) {
  for (const Call& call : calls) {
    if (!verify_ && only_verifies(call)) continue;
    drill_.before(call, step, device_);
    device_.run(call, step.stream);
  }
  if (verify_) throw_if_not_finite(device_.findings(), plan_, program_.rank);
}

void MpiStep::start_exchange(std::size_t step) {
  const RankStep& rank_step = program_.steps[step];
  stamps_[rank_step.op.index()].start = Clock::now();
  drill_.at_start(rank_step);
  Flight& flight = flights_[step];
  run_calls(rank_step.before, rank_step);
  together_ ? post_barrier(step, flight) : advance(step);
}

/// Begins the next part of an exchange once nothing of the last one is open: a barrier
/// (--together), the messages, and a barrier.
void MpiStep::advance(std::size_t step) {
  using Part = Flight::Part;
  Flight& flight = flights_.at(step);
  while (flight.open == 0) {
    if (flight.part == Part::move && begin_next_round(step, flight)) continue;
    flight.part = static_cast<Part>(static_cast<int>(flight.part) + 1);
    if (flight.part == Part::ended) return end_exchange(step);
    if (flight.part == Part::move) {
      post(step, flight);
    } else if (together_) {
      post_barrier(step, flight);
    }
  }
}

/// What a round has brought is taken before the next one packs its messages.
bool MpiStep::begin_next_round(std::size_t step, Flight& flight) {
  const RankStep& rank_step = program_.steps[step];
  if (flight.round == rank_step.more.size()) return false;
  run_calls(rank_step.after_of(flight.round), rank_step);
  run_calls(rank_step.more[flight.round++].before, rank_step);
  post(step, flight);
  return true;
}

void MpiStep::end(std::size_t step, Clock::time_point at) {
  stamps_[program_.steps[step].op.index()].end = at;
  order_.end(step);
}

void MpiStep::end_exchange(std::size_t step) {
  const Clock::time_point at = Clock::now();  // checks that follow are not part of the exchange
  flights_.erase(step);
  run_calls(program_.steps[step].last_calls(), program_.steps[step]);
  end(step, at);
}

bool MpiStep::take_kernels() {
  bool moved = false;
  for (const auto& kernels : kernels_) {
    if (!kernels) continue;
    for (const KernelThread::Ended& ended : kernels->take_ended()) {
      if (ended.error) std::rethrow_exception(ended.error);
      stamps_[ended.op.index()].start = ended.start;
      end(step_of_[ended.op.index()], ended.end);
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
  std::vector<std::size_t> ended;
  for (int i = 0; i < count; ++i) {
    const auto request = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
    const std::size_t step = request_of_[request];
    if (--flights_.at(step).open == 0) ended.push_back(step);
  }
  // Requests that have ended leave the list, so that the next test is only of open ones.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    request_of_[kept++] = request_of_[i];
  }
  requests_.resize(kept);
  request_of_.resize(kept);
  for (const std::size_t step : ended) advance(step);
  return true;
}

void MpiStep::check_progress() {
  if (told_to_end()) {
    throw op_error(plan_, program_.rank, program_.steps[order_.open().front()].op,
                   "told to end, for another rank is gone or somebody ended the run");
  }
  // A kernel may take as long as it takes; only waiting for others has a limit.
  for (const auto& kernels : kernels_) {
    if (kernels && kernels->busy()) return;
  }
  const std::chrono::duration<double> idle = Clock::now() - last_progress_;
  if (idle.count() < timeout_.value) return;
  throw op_error(plan_, program_.rank, program_.steps[order_.open().front()].op,
                 fmt::format("nothing has moved for {} s", timeout_.value));
}

}  // namespace moesim
