// SPDX-License-Identifier: Apache-2.0
#include "realhw/nccl/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>

namespace moesim {
namespace {

constexpr auto ready_pause = std::chrono::microseconds(20);

ncclUniqueId id_of_first(const NcclApi& nccl, Job& job) {
  ncclUniqueId id{};
  std::string error;
  if (job.rank() == 0) {
    if (const ncclResult_t made = nccl.get_unique_id(&id); made != ncclSuccess) {
      error = nccl.error_string(made);
    }
  }
  // If it failed, rank 0 sends the error in place of the id, so that no rank waits for an id. The
  // first character tells them apart.
  constexpr char has_id = '=', has_error = '!';
  const std::string text = job.broadcast(
      error.empty() ? has_id + std::string(id.internal, sizeof id.internal) : has_error + error);
  if (text.size() != 1 + sizeof id.internal || text.front() != has_id) {
    throw std::runtime_error(fmt::format("NCCL cannot make a communicator id on rank 0: {}",
                                         std::string_view(text).substr(1)));
  }
  std::memcpy(id.internal, text.data() + 1, sizeof id.internal);
  return id;
}

}  // namespace

Communicator::Communicator(const NcclApi& nccl, Job& job, Seconds limit)
    : nccl_(nccl), job_(job), limit_(limit) {
  const ncclUniqueId id = id_of_first(nccl, job);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try {
    check(nccl_.init_rank(&comm_, job.ranks(), id, job.rank(), &config));
    wait_until_ready("joining the communicator");
  } catch (...) {
    abort();
    throw;
  }
}

Communicator::~Communicator() {
  if (comm_ == nullptr) return;
  try {
    if (std::uncaught_exceptions() == 0) {
      check(nccl_.finalize(comm_));
      wait_until_ready("leaving the communicator");
      nccl_.destroy(comm_);
      comm_ = nullptr;
    }
  } catch (const std::exception&) {  // a destructor cannot report it
  }
  abort();
}

void Communicator::abort() {
  if (comm_ != nullptr) nccl_.abort(comm_);
  comm_ = nullptr;
}

void Communicator::abort_all(std::span<const std::unique_ptr<Communicator>> communicators) {
  const NcclApi* nccl = nullptr;
  for (const auto& communicator : communicators) {
    if (!communicator || communicator->comm_ == nullptr) continue;
    if (nccl == nullptr) {
      nccl = &communicator->nccl_;
      nccl->group_start();
    }
    communicator->abort();
  }
  if (nccl != nullptr) nccl->group_end();
}

std::string Communicator::text_of(ncclResult_t result) const {
  const char* last = comm_ == nullptr ? nullptr : nccl_.last_error(comm_);
  if (last == nullptr || *last == 0) return nccl_.error_string(result);
  return fmt::format("{} ({})", nccl_.error_string(result), last);
}

void Communicator::check(ncclResult_t result, const char* caller) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw std::runtime_error(fmt::format("NCCL, called in {}: {}", caller, text_of(result)));
}

ncclResult_t Communicator::state() {
  if (comm_ == nullptr) throw BackgroundError("NCCL: the communicator was aborted");
  ncclResult_t state = ncclSuccess;
  check(nccl_.get_async_error(comm_, &state));
  if (state == ncclSuccess || state == ncclInProgress) return state;
  throw BackgroundError(fmt::format("NCCL: {}", text_of(state)));
}

void Communicator::check() { state(); }

void Communicator::wait_until_ready(const char* for_what) {
  const Clock::time_point start = Clock::now();
  while (state() == ncclInProgress) {
    job_.check_peers();
    const std::chrono::duration<double> waited = Clock::now() - start;
    if (waited.count() > limit_.value) {
      throw std::runtime_error(
          fmt::format("NCCL: {} has not ended for {} s", for_what, limit_.value));
    }
    std::this_thread::sleep_for(ready_pause);
  }
}

void Communicator::exchange(std::span<const Part> sends, std::span<const Part> receives,
                            GpuStream stream) {
  if (sends.empty() && receives.empty()) return;
  state();  // also throws if the communicator was aborted
  check(nccl_.group_start());
  try {
    put_parts(sends, receives, stream);
  } catch (...) {
    // It sends nothing after an error, but abort() would wait for an open group.
    nccl_.group_end();
    throw;
  }
  check(nccl_.group_end());
  // Before that, nothing else may be put on the stream.
  try {
    wait_until_ready("starting the messages");
  } catch (const BackgroundError&) {
    throw;
  } catch (const std::runtime_error& e) {
    throw Failure(e.what());
  }
}

void Communicator::put_parts(std::span<const Part> sends, std::span<const Part> receives,
                             GpuStream stream) {
  for (const Part& part : receives) {
    check(nccl_.receive(part.bytes, part.size, ncclUint8, part.peer, comm_, stream));
  }
  for (const Part& part : sends) {
    check(nccl_.send(part.bytes, part.size, ncclUint8, part.peer, comm_, stream));
  }
}

}  // namespace moesim
