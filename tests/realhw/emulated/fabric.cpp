// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/emulated/fabric.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "tests/realhw/emulated/calls.h"
#include "tests/realhw/emulated/fabric_state.h"
#include "tests/realhw/emulated/runtime.h"
#include "tests/realhw/emulated/watch.h"

namespace moesim::emulated {
namespace {

struct Transfer {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  bool send = false;
  bool eager = false;  // a send that ends once it is on the wire
  bool captured = false;
  bool done = false, on_wire = false;
  std::vector<std::byte> wire;
};
using Transfers = std::map<int, std::deque<std::shared_ptr<Transfer>>>;  // by peer

/// What the ranks of one communicator share.
struct World {
  int ranks = 0, joined = 0;
  std::map<int, ncclComm*> members;
};

}  // namespace
}  // namespace moesim::emulated

struct ncclComm {
  std::shared_ptr<moesim::emulated::World> world;
  int rank = 0, device = 0;
  bool aborted = false, finalizing = false;
  ncclResult_t failure = ncclSuccess;
  std::uint64_t polls = 0;      // until what was begun is done
  std::function<void()> start;  // the group that waits to be put on its stream
  int in_graphs = 0, in_flight = 0;
  moesim::emulated::Transfers sends, receives;  // of groups that have started, in order
};

namespace moesim::emulated {
namespace {

struct Flight;
struct Fabric {
  FabricState state;
  std::vector<std::shared_ptr<World>> worlds;
  std::vector<std::unique_ptr<ncclComm>> comms;
  std::map<int, std::deque<Flight*>> launched;  // by device, in the order of its host
};
Fabric& fabric() {
  static Fabric& made = *new Fabric;
  return made;
}

struct Part {
  ncclComm* comm;
  cudaStream_t stream;
  Transfer transfer;
};
thread_local std::vector<Part> parts;
thread_local int depth = 0;
thread_local ncclResult_t group_error = ncclSuccess;
thread_local std::vector<ncclComm*> aborting;  // in the group

std::uint64_t random_below(std::uint64_t n) { return Turns::current()->chance()() % n; }

/// A group on its stream.
struct Flight {
  Flight(ncclComm* c, const std::vector<Part>& group, bool captured) : comm(c) {
    for (const Part& part : group) {
      transfers.push_back(std::make_shared<Transfer>(part.transfer));
      transfers.back()->eager = part.transfer.send && random_below(2) == 0;
      transfers.back()->captured = captured;
    }
    ++comm->in_flight;
    fabric().launched[comm->device].push_back(this);
  }
  ~Flight() { leave(); }
  void leave() {
    if (std::erase(fabric().launched[comm->device], this) > 0) --comm->in_flight;
  }

  /// NCCL keeps the host's order of groups of several communicators if it is asked to. One after
  /// the other is the worst that can be.
  bool may_start() const {
    const char* ordered = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return ordered == nullptr || *ordered != '1' || fabric().launched[comm->device].front() == this;
  }
  bool ready() const {
    if (comm->aborted) return true;
    if (!started) return may_start();
    return ended() || std::ranges::any_of(transfers, [&](auto& t) { return can_move(*t); });
  }
  bool ended() const {
    return std::ranges::all_of(transfers, [](const auto& t) { return t->done; });
  }
  ncclComm* peer_of(const Transfer& t) const {
    const auto found = comm->world->members.find(t.peer);
    return found == comm->world->members.end() ? nullptr : found->second;
  }
  /// A receive takes the first message of its peer.
  bool can_move(const Transfer& t) const {
    if (t.done) return false;
    if (t.send) return t.eager;
    ncclComm* peer = peer_of(t);
    if (peer == nullptr || comm->receives[t.peer].front().get() != &t) return false;
    return !peer->sends[comm->rank].empty();
  }
  bool run() {
    const bool ends = comm->aborted || advance();
    if (ends) leave();
    return ends;
  }
  bool advance() {
    if (!started) {
      started = true;
      for (auto& t : transfers) (t->send ? comm->sends : comm->receives)[t->peer].push_back(t);
      return transfers.empty();
    }
    std::vector<Transfer*> movable;
    for (auto& t : transfers) {
      if (can_move(*t)) movable.push_back(t.get());
    }
    if (!movable.empty()) move(*movable[random_below(movable.size())]);
    return ended();
  }
  void move(Transfer& t) {
    if (t.send) {
      if (require_device(t.at, t.bytes, "a message that is sent"))
        t.wire.assign(t.at, t.at + t.bytes);
      t.on_wire = t.done = true;
      return;
    }
    ncclComm& peer = *peer_of(t);
    const auto sent = peer.sends[comm->rank].front();
    peer.sends[comm->rank].pop_front();
    const auto self = comm->receives[t.peer].front();
    comm->receives[t.peer].pop_front();
    if (sent->captured != t.captured) ++fabric().state.captured_by_one;
    if (sent->bytes != t.bytes || sent->captured != t.captured) {
      peer.failure = comm->failure = ncclInvalidUsage;
    } else if (require_device(t.at, t.bytes, "a message that is received")) {
      const bool there =
          sent->on_wire || require_device(sent->at, t.bytes, "a message that is sent");
      if (there) std::memcpy(t.at, sent->on_wire ? sent->wire.data() : sent->at, t.bytes);
    }
    t.done = sent->done = true;
  }

  ncclComm* comm;
  std::vector<std::shared_ptr<Transfer>> transfers;
  bool started = false;
};

void put_group(ncclComm* comm, const std::vector<Part>& group) {
  ++fabric().state.groups;
  CUstream_st* stream = group[0].stream;
  std::shared_ptr<void> in_graph;
  const bool captured = stream->graph != nullptr;
  if (captured) {
    ++comm->in_graphs;
    in_graph = {nullptr, [comm](void*) { --comm->in_graphs; }};
  }
  Runtime::get().put_work(stream, [comm, group, in_graph, captured] {
    const auto flight = std::make_shared<Flight>(comm, group, captured);
    return Work{[flight] { return flight->ready(); }, [flight] { return flight->run(); }};
  });
}

/// As in NCCL 2.28: while a graph holds its messages, and while streams of its GPU are busy.
bool blocks(const ncclComm& comm) {
  return comm.in_graphs > 0 ||
         Runtime::get().locked([&] { return !Runtime::get().idle_device(comm.device); });
}

void reclaim() {
  const auto all = std::exchange(aborting, {});
  const auto gone = [&] { return std::ranges::none_of(all, [](auto* c) { return blocks(*c); }); };
  if (!gone() && !Turns::current()->wait(gone, "an abort", std::chrono::seconds(2))) {
    ++fabric().state.hung;
  }
  for (ncclComm* comm : all) comm->world->members.erase(comm->rank);
  fabric().state.live -= static_cast<int>(all.size());
}

bool fails(const char* name) { return Calls::get().meet(name) == Mishap::fails; }

}  // namespace

const FabricState& fabric_state() { return fabric().state; }
void forget_fabric() {
  static std::vector<std::unique_ptr<ncclComm>> kept;  // graphs of a rank that died hold them
  for (auto& comm : fabric().comms) {
    if (comm->in_graphs > 0 || comm->in_flight > 0) kept.push_back(std::move(comm));
  }
  fabric() = {};
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  if (fails("ncclGetUniqueId")) return ncclSystemError;
  const auto number = static_cast<int>(fabric().worlds.size());
  fabric().worlds.push_back(std::make_shared<World>());
  std::memset(id->internal, 0x5a, sizeof id->internal);
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                       ncclConfig_t* config) {
  if (fails("ncclCommInitRankConfig")) return ncclSystemError;
  if (config->blocking != 0) return ncclInvalidArgument;
  int number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  auto made = std::make_unique<ncclComm>();
  made->world = fabric().worlds.at(static_cast<std::size_t>(number));
  made->rank = rank;
  made->device = Runtime::get().device();
  made->world->ranks = ranks;
  made->world->members[rank] = made.get();
  ++made->world->joined;
  ++fabric().state.made;
  ++fabric().state.live;
  *comm = fabric().comms.emplace_back(std::move(made)).get();
  return ncclInProgress;
}

ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t* state) {
  const Mishap mishap = Calls::get().meet("ncclCommGetAsyncError");
  if (mishap == Mishap::fails) return ncclSystemError;
  if (mishap == Mishap::in_background) comm->failure = ncclRemoteError;
  *state = comm->failure;
  if (*state != ncclSuccess) return ncclSuccess;
  const bool waits =
      comm->world->joined < comm->world->ranks || (comm->finalizing && comm->polls > 0);
  if (waits || comm->start) *state = ncclInProgress;
  if (comm->polls > 0) --comm->polls;
  if (comm->polls == 0 && comm->start) std::exchange(comm->start, {})();
  return ncclSuccess;
}

ncclResult_t finalize(ncclComm_t comm) {
  if (fails("ncclCommFinalize")) return ncclSystemError;
  comm->finalizing = true;
  comm->polls = random_below(4);
  return ncclInProgress;
}

ncclResult_t destroy(ncclComm_t comm) {
  const bool failed = fails("ncclCommDestroy");
  if (comm->in_graphs > 0 || comm->in_flight > 0) ++fabric().state.destroyed_early;
  --fabric().state.live;
  return failed ? ncclSystemError : ncclSuccess;
}

ncclResult_t abort_communicator(ncclComm_t comm) {
  const bool failed = fails("ncclCommAbort");
  comm->aborted = true;
  comm->start = {};
  aborting.push_back(comm);
  if (depth == 0) reclaim();
  return failed ? ncclSystemError : ncclSuccess;
}

ncclResult_t group_start() {
  if (fails("ncclGroupStart")) return ncclSystemError;
  return ++depth, ncclSuccess;
}

ncclResult_t add_message(void* at, std::size_t bytes, ncclDataType_t type, int peer,
                         ncclComm_t comm, cudaStream_t stream, bool send) {
  const bool failed = fails(send ? "ncclSend" : "ncclRecv");
  const bool valid = depth == 1 && type == ncclUint8 && bytes > 0 && !comm->aborted;
  if (failed || !valid) return group_error = failed ? ncclSystemError : ncclInvalidUsage;
  parts.push_back(
      {comm, stream, {static_cast<std::byte*>(at), bytes, peer, send, {}, {}, {}, {}, {}}});
  return ncclSuccess;
}

/// The group is put on its stream some polls later: who goes on before breaks the stream's order.
ncclResult_t group_end() {
  const bool failed = fails("ncclGroupEnd");
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  const std::vector<Part> group = std::exchange(parts, {});
  const ncclResult_t error = std::exchange(group_error, ncclSuccess);
  if (!aborting.empty()) reclaim();
  if (error != ncclSuccess || failed) return error != ncclSuccess ? error : ncclSystemError;
  if (group.empty()) return ncclSuccess;
  if (Calls::get().state() != cudaSuccess) return ncclUnhandledCudaError;
  ncclComm* comm = group[0].comm;
  if (comm->start) return ++fabric().state.put_before_ready, ncclInvalidUsage;
  comm->polls = random_below(4);
  comm->start = [comm, group] { put_group(comm, group); };
  return ncclInProgress;
}

}  // namespace moesim::emulated
