// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/nccl/fake_nccl.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>

#include "tests/realhw/nccl/fake_gpu.h"

namespace moesim {

/// What the ranks of one communicator share.
struct FakeNccl::World {
  int number = 0, joined = 0, ranks = 0;
  std::mutex mutex;
  std::map<std::pair<int, int>, std::deque<std::string>> on_their_way;  // [from, to]
};

struct FakeNccl::Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  bool never_joins = false;
  std::atomic<bool> aborted = false;
  std::atomic<int> in_graphs = 0;  // groups that a graph holds
  std::weak_ptr<FakeGpu*> gpu;     // of its latest group
  std::atomic<ncclResult_t> failure = ncclSuccess;
  int polls_until_started = 0;  // of the group that waits to be put on its stream
  std::function<void()> start;
};

namespace {

FakeNccl* current = nullptr;

struct Part {
  FakeNccl::Comm* comm;
  GpuStream stream;
  std::byte* bytes;
  std::size_t size;
  int peer;
  bool send;
};
thread_local std::vector<Part> parts;
thread_local int depth = 0;
thread_local ncclResult_t group_error = ncclSuccess;
thread_local std::vector<FakeNccl::Comm*> aborting;  // in the group

/// Polls before a group is on its stream: a caller that continues earlier breaks the stream's
/// order.
constexpr int late_by = 3;

FakeNccl::Comm* comm_of(ncclComm_t comm) { return reinterpret_cast<FakeNccl::Comm*>(comm); }

void send_all(const std::vector<Part>& group, FakeNccl::Fault fault) {
  for (const Part& part : group) {
    if (!part.send) continue;
    std::string message(reinterpret_cast<const char*>(part.bytes), part.size);
    if (fault == FakeNccl::Fault::cuts) message.pop_back();
    if (fault == FakeNccl::Fault::flips) message[3] = static_cast<char>(~message[3]);
    fault = FakeNccl::Fault::none;
    FakeNccl::World& world = *part.comm->world;
    const std::lock_guard lock(world.mutex);
    world.on_their_way[{part.comm->rank, part.peer}].push_back(std::move(message));
  }
}

bool try_receive(const Part& part) {
  FakeNccl::World& world = *part.comm->world;
  const std::lock_guard lock(world.mutex);
  auto& waiting = world.on_their_way[{part.peer, part.comm->rank}];
  if (waiting.empty()) return false;
  if (waiting.front().size() != part.size) part.comm->failure = ncclInvalidUsage;
  std::memcpy(part.bytes, waiting.front().data(), std::min(part.size, waiting.front().size()));
  waiting.pop_front();
  return true;
}

}  // namespace

struct FakeNcclCalls {
  static ncclResult_t get_version(int* version) { return *version = 22809, ncclSuccess; }

  static ncclResult_t get_unique_id(ncclUniqueId* id) {
    const std::lock_guard lock(current->mutex_);
    auto world = std::make_shared<FakeNccl::World>();
    world->number = static_cast<int>(current->worlds_.size());
    current->worlds_.push_back(world);
    std::memset(id->internal, 0x5a, sizeof id->internal);
    std::memcpy(id->internal, &world->number, sizeof world->number);
    return ncclSuccess;
  }

  static ncclResult_t init_rank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                ncclConfig_t* config) {
    if (config->blocking != 0) return ncclInvalidArgument;
    int number = 0;
    std::memcpy(&number, id.internal, sizeof number);
    const std::lock_guard lock(current->mutex_);
    auto made = std::make_unique<FakeNccl::Comm>();
    made->world = current->worlds_.at(static_cast<std::size_t>(number));
    made->rank = rank;
    made->never_joins =
        current->fault_ == FakeNccl::Fault::never_joins && rank == current->fault_rank_;
    made->world->ranks = ranks;
    if (!made->never_joins) ++made->world->joined;
    *comm = reinterpret_cast<ncclComm_t>(made.get());
    current->comms_.push_back(std::move(made));
    ++current->made_;
    ++current->live_;
    return ncclInProgress;
  }

  static ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t* state) {
    FakeNccl::Comm& c = *comm_of(comm);
    {
      const std::lock_guard lock(current->mutex_);
      *state = c.failure;
      if (c.failure == ncclSuccess && c.world->joined < c.world->ranks) *state = ncclInProgress;
    }
    if (c.start) {
      *state = ncclInProgress;
      if (--c.polls_until_started == 0) std::exchange(c.start, {})();
    }
    return ncclSuccess;
  }

  static ncclResult_t finalize(ncclComm_t) { return ncclInProgress; }
  static ncclResult_t destroy(ncclComm_t) { return --current->live_, ncclSuccess; }
  static ncclResult_t abort(ncclComm_t comm) {
    comm_of(comm)->aborted = true;
    aborting.push_back(comm_of(comm));
    if (depth == 0) reclaim();
    const std::lock_guard lock(current->mutex_);
    current->aborted_.insert(comm_of(comm)->rank);
    return ncclSuccess;
  }
  static bool blocks(const FakeNccl::Comm& comm) {
    const auto gpu = comm.gpu.lock();
    return comm.in_graphs > 0 || (gpu && (*gpu)->busy());
  }
  static void reclaim() {
    const Clock::time_point patience = Clock::now() + std::chrono::seconds(2);
    for (const FakeNccl::Comm* comm : std::exchange(aborting, {})) {
      while (blocks(*comm) && Clock::now() < patience)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      current->hung_ += blocks(*comm) ? 1 : 0;
      --current->live_;
    }
  }

  static const char* error_string(ncclResult_t result) {
    return result == ncclSystemError ? "unhandled system error" : "invalid usage";
  }
  static const char* last_error(ncclComm_t) { return "a cable was pulled"; }

  static ncclResult_t group_start() { return ++depth, ncclSuccess; }
  static ncclResult_t add(void* bytes, std::size_t size, ncclDataType_t type, int peer,
                          ncclComm_t comm, cudaStream_t stream, bool send) {
    const bool valid = depth == 1 && type == ncclUint8 && size > 0;
    const int rank = comm_of(comm)->rank;
    const bool refused = send && current->fault_ == FakeNccl::Fault::refuses &&
                         rank == current->fault_rank_ &&
                         current->groups_of(rank) == current->fault_group_;
    if (!valid || refused) return group_error = valid ? ncclSystemError : ncclInvalidUsage;
    parts.push_back({comm_of(comm), stream, static_cast<std::byte*>(bytes), size, peer, send});
    return ncclSuccess;
  }
  static ncclResult_t send(const void* bytes, std::size_t size, ncclDataType_t type, int peer,
                           ncclComm_t comm, cudaStream_t stream) {
    return add(const_cast<void*>(bytes), size, type, peer, comm, stream, true);
  }
  static ncclResult_t receive(void* bytes, std::size_t size, ncclDataType_t type, int peer,
                              ncclComm_t comm, cudaStream_t stream) {
    return add(bytes, size, type, peer, comm, stream, false);
  }

  static ncclResult_t group_end() {
    --depth;
    if (depth > 0) return ncclSuccess;
    const std::vector<Part> group = std::exchange(parts, {});
    if (group_error != ncclSuccess) return std::exchange(group_error, ncclSuccess);
    if (!aborting.empty()) return reclaim(), ncclSuccess;
    FakeNccl::Comm& comm = *group.at(0).comm;
    if (comm.start) return ncclInvalidUsage;  // the group before has not started
    const FakeNccl::Fault fault = note(group);
    comm.polls_until_started = fault == FakeNccl::Fault::never_starts ? -1 : late_by;
    comm.start = [&comm, group, fault] {
      FakeStream& stream = FakeGpu::stream_of(group[0].stream);
      comm.gpu = stream.gpu->self();
      std::shared_ptr<void> in_graph;
      if (stream.is_captured()) {
        ++comm.in_graphs;
        in_graph = {nullptr, [&comm](void*) { --comm.in_graphs; }};
      }
      stream.push([&comm, group, fault, in_graph](const auto& stop) {
        if (fault == FakeNccl::Fault::fails) comm.failure = ncclSystemError;
        const bool blocked =
            fault == FakeNccl::Fault::never_ends || fault == FakeNccl::Fault::fails;
        while (blocked && !comm.aborted && !stop)
          std::this_thread::sleep_for(std::chrono::microseconds(20));
        if (blocked || comm.aborted) return;
        send_all(group, fault);
        for (const Part& part : group) {
          while (!part.send && !comm.aborted && !stop && !try_receive(part)) {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
          }
        }
      });
    };
    return ncclInProgress;
  }

  /// Remembers the group, and says what befalls it.
  static FakeNccl::Fault note(const std::vector<Part>& group) {
    const FakeNccl::Comm& comm = *group[0].comm;
    const std::lock_guard lock(current->mutex_);
    const auto before = std::ranges::count(current->groups_, comm.rank, &FakeNccl::Group::rank);
    FakeNccl::Group noted{comm.world->number, comm.rank, {}, {}};
    for (const Part& part : group) {
      (part.send ? noted.sends : noted.receives).emplace_back(part.peer, part.size);
    }
    current->groups_.push_back(noted);
    const bool hit = comm.rank == current->fault_rank_ && before == current->fault_group_;
    return hit ? current->fault_ : FakeNccl::Fault::none;
  }
};

FakeNccl::FakeNccl() {
  current = this;
  api_ = {FakeNcclCalls::get_version,     FakeNcclCalls::get_unique_id, FakeNcclCalls::init_rank,
          FakeNcclCalls::finalize,        FakeNcclCalls::destroy,       FakeNcclCalls::abort,
          FakeNcclCalls::get_async_error, FakeNcclCalls::error_string,  FakeNcclCalls::last_error,
          FakeNcclCalls::group_start,     FakeNcclCalls::group_end,     FakeNcclCalls::send,
          FakeNcclCalls::receive};
}

FakeNccl::~FakeNccl() { current = nullptr; }

void FakeNccl::plan(Fault fault, int rank, int group) {
  fault_ = fault;
  fault_rank_ = rank;
  fault_group_ = group;
}

std::vector<FakeNccl::Group> FakeNccl::groups() {
  const std::lock_guard lock(mutex_);
  return groups_;
}

int FakeNccl::groups_of(int rank) {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count(groups_, rank, &Group::rank));
}

std::set<int> FakeNccl::aborted() {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

}  // namespace moesim
