// SPDX-License-Identifier: Apache-2.0
#include "realhw/nccl/nccl_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include "realhw/cuda/op_range.h"
#include "realhw/program/compare.h"
#include "realhw/program/op_text.h"
#include "sim/plan/check.h"

namespace moesim {
namespace {

constexpr auto progress_pause = std::chrono::microseconds(20);

/// Steps that may wait on streams. CUDA blocks the host when a queue is full, and a blocked host
/// cannot see that nothing moves.
constexpr std::size_t most_waiting = 64;

constexpr std::size_t none = static_cast<std::size_t>(-1);

bool has_messages(const RankStep& step) {
  for (std::size_t round = 0; round <= step.more.size(); ++round) {
    if (!step.sends_of(round).empty() || !step.receives_of(round).empty()) return true;
  }
  return false;
}

std::size_t start_of(std::size_t step) { return 2 * step; }
std::size_t end_of(std::size_t step) { return 2 * step + 1; }

}  // namespace

NcclStep::NcclStep(const RealStep& step, RankProgram program, std::unique_ptr<GpuDevice> device,
                   StreamCommunicators& communicators, Job& job, const NcclOptions& options)
    : step_(step),
      program_(std::move(program)),
      device_(std::move(device)),
      communicators_(communicators),
      job_(job),
      options_(options),
      step_of_(step.plan.ops.size(), none) {
  for (std::size_t i = 0; i < program_.steps.size(); ++i) {
    const OpId op = program_.steps[i].op;
    step_of_[op.index()] = i;
    names_.push_back(
        fmt::format("{} of layer {}", describe(step.plan, op), step.plan[op].key.layer));
  }
  // All ranks put their steps on the GPU in one order of the whole plan, so no two hosts wait for
  // each other to join different exchanges.
  for (const OpId op : topological_order(step.plan)) {
    if (step_of_[op.index()] != none) order_.push_back(step_of_[op.index()]);
  }
  device_->load(program_);
  device_->make_marks(2 * program_.steps.size());
}

std::vector<Stamp> NcclStep::run(bool verify) {
  if (!verify && runs_ > 0 && options_.graphs && graph_ == Graph::not_tried) {
    prepare([this] { capture(); });
    // The first replay takes longer: it brings the graph to the GPU. Not cudaGraphUpload, which
    // crashes in driver 580.159.04 if NCCL 2.28.9 orders the launches of several communicators.
    if (graph_ == Graph::captured) run_once(false);
  }
  run_once(verify);
  if (verify) throw_if_not_finite(device_->findings(), step_.plan, program_.rank);
  return stamps();
}

/// Does what must not fail on one rank only.
void NcclStep::prepare(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::runtime_error& e) {
    abort();
    throw std::runtime_error(
        fmt::format("rank {}, before the step: {}", program_.rank.value, e.what()));
  }
}

void NcclStep::run_once(bool verify) {
  prepare([&] {
    device_->reset(verify);
    device_->start_clock();
  });
  for (Ongoing& stream : streams_) stream = {};
  job_.barrier();
  last_progress_ = Clock::now();
  start(verify);
  watch_until(0);
  runs_ = verify ? 1 : runs_ + 1;
}

void NcclStep::start(bool verify) {
  if (verify || graph_ != Graph::captured) return put_all(verify);
  for (const std::size_t step : order_) {
    streams_[static_cast<std::size_t>(program_.steps[step].stream)].steps.push_back(step);
  }
  try {
    device_->replay();
  } catch (const std::runtime_error& e) {
    fail(first_ongoing(), e.what());
  }
}

/// Called after the first run: what libraries set up on first use is there by then, and becomes no
/// part of the graph. NCCL wants a group captured on all of its ranks or on none.
void NcclStep::capture() {
  const bool captured = try_capture();
  const bool by_all = sums_over_ranks(job_, {captured ? 1 : 0})[0] == job_.ranks();
  graph_ = by_all ? Graph::captured : Graph::impossible;
  if (captured && !by_all) device_->drop_capture();
}

bool NcclStep::try_capture() {
  try {
    device_->begin_capture();
    for (const std::size_t step : order_) put(step, false);
    device_->end_capture();
    return true;
  } catch (const Communicator::Failure&) {
    throw;
  } catch (const std::runtime_error& e) {
    device_->drop_capture();
    fmt::print(stderr, "moesim-hw: rank {}: no rank replays the step from a graph: {}\n",
               program_.rank.value, e.what());
    return false;
  }
}

void NcclStep::put_all(bool verify) {
  for (const std::size_t step : order_) {
    watch_until(most_waiting);
    streams_[static_cast<std::size_t>(program_.steps[step].stream)].steps.push_back(step);
    try {
      put(step, verify);
    } catch (const Communicator::BackgroundError& e) {
      fail(first_exchange_on(program_.steps[step].stream), e.what());
    } catch (const std::runtime_error& e) {
      fail(program_.steps[step].op, e.what());
    }
    last_progress_ = Clock::now();
  }
}

void NcclStep::put(std::size_t index, bool verify) {
  const RankStep& step = program_.steps[index];
  const OpRange range(names_[index]);
  for (const OpId op : step.waits) device_->wait(end_of(step_of_[op.index()]), step.stream);
  device_->mark(start_of(index), step.stream);
  put_calls(step.before, step.stream, verify);
  for (std::size_t round = 0; round <= step.more.size(); ++round) {
    if (round > 0) put_calls(step.more[round - 1].before, step.stream, verify);
    put_messages(step, round);
    put_calls(step.after_of(round), step.stream, verify);
  }
  device_->mark(end_of(index), step.stream);
}

void NcclStep::put_calls(const std::vector<Call>& calls, Stream stream, bool verify) {
  for (const Call& call : calls) {
    if (verify || !only_verifies(call)) device_->run(call, stream);
  }
}

void NcclStep::put_messages(const RankStep& step, std::size_t round) {
  if (step.sends_of(round).empty() && step.receives_of(round).empty()) return;
  const auto parts = [this](const std::vector<Message>& messages) {
    std::vector<Communicator::Part> result;
    for (const Message& message : messages) {
      result.push_back({message.peer.value, device_->data(message.at.buffer) + message.at.offset,
                        static_cast<std::size_t>(message.bytes)});
    }
    return result;
  };
  communicators_[static_cast<std::size_t>(step.stream)]->exchange(
      parts(step.sends_of(round)), parts(step.receives_of(round)), device_->stream(step.stream));
}

std::size_t NcclStep::ongoing() const {
  std::size_t count = 0;
  for (const Ongoing& stream : streams_) count += stream.steps.size() - stream.ended;
  return count;
}

OpId NcclStep::first_ongoing() const {
  OpId first(static_cast<std::int64_t>(step_.plan.ops.size()) - 1);
  for (const Ongoing& stream : streams_) {
    if (stream.ended < stream.steps.size()) {
      first = std::min(first, program_.steps[stream.steps[stream.ended]].op);
    }
  }
  return first;
}

OpId NcclStep::first_exchange_on(Stream stream) {
  try {
    take_ended();
  } catch (const std::runtime_error&) {  // the message is to name the exchange
  }
  const Ongoing& ongoing = streams_[static_cast<std::size_t>(stream)];
  for (std::size_t i = ongoing.ended; i < ongoing.steps.size(); ++i) {
    const RankStep& step = program_.steps[ongoing.steps[i]];
    if (has_messages(step)) return step.op;
  }
  return first_ongoing();
}

/// Returns when at most `most_ongoing` steps are under way; 0 waits for all other work of the
/// streams, too.
void NcclStep::watch_until(std::size_t most_ongoing) {
  const auto settled = [&] { return most_ongoing > 0 || device_->idle(); };
  while (true) {
    bool done = false;
    try {
      if (take_ended()) last_progress_ = Clock::now();
      done = ongoing() <= most_ongoing && settled();
    } catch (const std::runtime_error& e) {
      fail(first_ongoing(), e.what());
    }
    if (done) return;
    check_failures();
    std::this_thread::sleep_for(progress_pause);
  }
}

bool NcclStep::take_ended() {
  bool moved = false;
  for (Ongoing& stream : streams_) {
    while (stream.ended < stream.steps.size() &&
           device_->passed(end_of(stream.steps[stream.ended]))) {
      ++stream.ended;
      moved = true;
    }
  }
  return moved;
}

void NcclStep::check_failures() {
  for (std::size_t l = 0; l < streams_.size(); ++l) {
    if (!communicators_[l]) continue;
    try {
      communicators_[l]->check();
    } catch (const std::runtime_error& e) {
      fail(first_exchange_on(Stream(l)), e.what());
    }
  }
  try {
    job_.check_peers();
  } catch (const std::runtime_error& e) {
    fail(first_ongoing(), e.what());
  }
  const std::chrono::duration<double> idle = Clock::now() - last_progress_;
  if (idle.count() > options_.timeout.value) {
    fail(first_ongoing(), fmt::format("nothing has moved for {} s", options_.timeout.value));
  }
}

/// Kernels of NCCL spin until their messages are through or their communicator is aborted, and
/// memory cannot be freed below them. Aborting waits for all graphs that hold messages to be gone.
void NcclStep::abort() {
  device_->drop_capture();
  Communicator::abort_all(communicators_);
}

void NcclStep::fail(OpId op, const std::string& what) {
  abort();
  throw op_error(step_.plan, program_.rank, op, what);
}

std::vector<Stamp> NcclStep::stamps() {
  std::vector<Stamp> stamps(step_.plan.ops.size());
  for (std::size_t i = 0; i < program_.steps.size(); ++i) {
    stamps[program_.steps[i].op.index()] = {device_->time_of(start_of(i)),
                                            device_->time_of(end_of(i))};
  }
  return stamps;
}

Comparison NcclStep::compare(const CompareOptions& options) {
  return moesim::compare(step_, program_, *device_, {options.tokens, runs_});
}

}  // namespace moesim
