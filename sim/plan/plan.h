// SPDX-License-Identifier: Apache-2.0
// The plan: ops of groups of GPUs on their streams, with what they wait for. It is all that crosses
// from policies to backends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/base/group_traffic.h"
#include "sim/model/kernel.h"
#include "sim/model/op_kind.h"
#include "sim/plan/group.h"
#include "sim/plan/label.h"
#include "sim/transport/transport.h"

namespace moesim {

/// Ops of one GPU on one stream run in list order, as on a CUDA stream.
enum class Stream : std::uint8_t {
  compute,
  ep,         // token exchanges ...
  param,      // expert parameters and gradients within an EP group
  copy,       // kernels next to those of compute ...
  ep_2,       // ... and kernels that overlap them
  dp,         // gradients between replicas, which no exchange of parameters has to wait for
  tp,         // within a tensor-parallel group
  cp,         // within a context-parallel group
  stash,      // ... and copies of what experts keep, to a stash and back
  to_host,    // copies of activations to the memory of the host ...
  from_host,  // ... and back, by another copy engine
  // To the next pipeline stage and to the one before; a stage's neighbours are on different ones.
  pp_down,
  pp_down_2,
  pp_down_3,
  pp_up,
  pp_up_2,
  pp_up_3
};
inline constexpr int stream_count = static_cast<int>(Stream::pp_up_3) + 1;
const char* name_of(Stream stream);
bool runs_kernels(Stream stream);        // the others run exchanges
bool carries_tokens(Stream stream);      // to and from experts
bool carries_parameters(Stream stream);  // or their gradients
bool copies_to_hosts(Stream stream);     // or back
bool is_between_stages(Stream stream);   // of a pipeline

/// What an op is for: dispatch, experts and combine are the ways of the tokens (backward of combine
/// has the shape of dispatch and the reverse); gather, reduce and migrate move expert parameters,
/// their gradients, and experts to new places.
enum class Stage { dispatch, experts, combine, other, gather, reduce, migrate };
inline constexpr int stage_count = 7;
const char* name_of(Stage stage);

/// A bit per choice k of a token: the choices that a row carries.
using Choices = std::uint32_t;
inline constexpr int max_top_k = 32;

/// One token row of an exchange: `token` counts within the plan's batch, in rank-major order. A row
/// without choices is a copy that its receiver does not need (all-gather).
struct RowMove {
  GpuId from, to;
  TokenId token;
  Choices choices = 0;
  bool operator==(const RowMove&) const = default;
};

/// A kernel on every GPU of a group, each by itself: they differ only in their sizes. Copies share
/// them, because microbatches repeat the same kernels.
class Kernels {
 public:
  Kernels();  // nothing to do
  /// The same on all members.
  Kernels(Kernel all);
  /// [member], at least one.
  explicit Kernels(std::vector<Kernel> each);

  const Kernel& of(std::size_t member) const {
    return each().size() == 1 ? each()[0] : each()[member];
  }
  /// One for all members, or one per member.
  const std::vector<Kernel>& each() const { return *each_; }
  bool operator==(const Kernels& other) const {
    return each_ == other.each_ || each() == other.each();
  }

 private:
  std::shared_ptr<const std::vector<Kernel>> each_;
};

/// Exchanges of several sets of GPUs that are one op. Only for simulating
/// (sim/planner/layer/phase_exchange.h).
struct Collectives {
  /// `members`: of each, by their places in the op's group; everybody is in one of them.
  Collectives(std::vector<std::vector<GpuId>> members, bool apart);
  struct Place {
    std::int32_t collective, member;
    bool operator==(const Place&) const = default;
  };

  std::vector<std::vector<GpuId>> members;
  bool apart;             // each starts and ends by itself; else together, and they share no link
  std::vector<Place> of;  // [place in the group]
  bool operator==(const Collectives&) const = default;
};

/// One grouped collective phase. It starts when the last GPU of its group has joined and ends for
/// all of them together; entries of the matrix are in flight at once.
///
/// Row and column i of `traffic` are the i-th member of the op's group. Entry (i, j) is what member
/// i sends to member j; where `transposed`, what j sends to i. So the way there and the way back,
/// forward and backward share the entries of one matrix. They do not share a price, because links
/// may differ by direction.
///
/// `rounds` steps follow each other inside one collective, as a ring of n ranks has 2 (n - 1) for
/// an all-reduce and n - 1 for an all-gather or a reduce-scatter; the matrix has the bytes of all
/// of them. With the overhead o [s] of an exchange and the latency l [s] of a step,
///   time = o + rounds x l + the bytes of all rounds on the busiest link / its bandwidth,
/// because the collective is launched once and its steps overlap in parts of the message. l is the
/// longest route's; where the rounds go round a ring, the mean of its hops: bytes take each hop
/// once. Every fidelity lets overhead and latency pass at the start, then the bytes of all rounds
/// flow.
struct Exchange {
  ByteMatrix traffic;         // members x members
  std::vector<RowMove> rows;  // explicit token lists, only when the plan was asked for them
  bool padded = false;        // rows of one unit each may leave room in the matrix
  bool transposed = false;    // rows of `traffic` receive
  int rounds = 1;
  bool ring = false;  // rounds pass bytes on to the next member
  /// Entry (i, i) is what copy engines move from member i to the memory of its host, or back where
  /// `transposed`; there are no others.
  bool with_hosts = false;
  int sms = 0;  // multiprocessors that it takes on each of its GPUs
  std::shared_ptr<const Collectives> collectives = nullptr;  // if it is several
  /// All of its members, if the plan has only some of them (representatives.h); else empty.
  Group members = {};
  bool operator==(const Exchange&) const = default;
};

/// What an op is, and where in the iteration it belongs.
struct OpKey {
  OpKind kind = OpKind::other;
  Role role = Role::plain;
  Pass pass = Pass::forward;
  Stage stage = Stage::other;
  int layer = -1;      // model layer number, -1 for none
  int microbatch = 0;  // of the iteration
  int chunk = 0;       // of the layers that a pipeline stage holds
  int part = 0;  // tells ops apart that are equal in all else, such as the phases of a dispatch

  OpType type() const { return {kind, role, pass}; }
  auto operator<=>(const OpKey&) const = default;
};

struct Op {
  Label label;  // for people: "permute", "dispatch-inter-1"
  OpKey key;
  Stream stream = Stream::compute;
  Group group;
  std::vector<OpId> after;  // each GPU waits for those of them that it runs, of other streams
  std::variant<Kernels, Exchange> work;

  const Kernels* kernels() const { return std::get_if<Kernels>(&work); }
  const Exchange* exchange() const { return std::get_if<Exchange>(&work); }
  /// If it is several exchanges that start and end by themselves.
  const Collectives* apart() const {
    const Exchange* moves = exchange();
    const bool several = moves != nullptr && moves->collectives && moves->collectives->apart;
    return several ? moves->collectives.get() : nullptr;
  }
  /// How many these are; else 1.
  std::size_t collectives() const {
    const Collectives* several = apart();
    return several != nullptr ? several->members.size() : 1;
  }
  /// Which of them a member is in, and as which of its members.
  Collectives::Place place_of(std::size_t member) const {
    const Collectives* several = apart();
    return several != nullptr ? several->of[member]
                              : Collectives::Place{0, static_cast<std::int32_t>(member)};
  }
  /// Who takes part in an exchange, also if the plan has only some of them.
  const Group& members() const {
    const Exchange& moves = std::get<Exchange>(work);
    return moves.members.empty() ? group : moves.members;
  }
  /// What an exchange moves, and between which GPUs. Looks at the op.
  GroupTraffic traffic() const {
    const Exchange& moves = std::get<Exchange>(work);
    return {moves.traffic, members(), moves.transposed, moves.rounds, moves.ring, moves.with_hosts};
  }
  bool operator==(const Op&) const = default;
};

/// The ops of one simulated step; an op's id is its index.
struct Plan {
  std::string name;
  int gpus = 0;
  std::vector<Op> ops;
  Transports transports = {};  // what carries its exchanges if they are simulated

  OpId add(Op op);
  const Op& operator[](OpId id) const { return ops[id.index()]; }
  bool operator==(const Plan&) const = default;
};

/// [op] what carries the exchanges of a plan. Tokens go by Transports::tokens, on their way back by
/// its `combine`; the first op of a dispatch or combine starts a kernel that the others continue
/// with if the transport is fused.
std::vector<Carrier> carriers_of(const Plan& plan);

/// Per op the ops that must end, on the GPUs that both run on, before it starts there: its `after`
/// and its predecessors on the stream of every GPU; ascending, each once. Needs the plan's ids in
/// range (see check_plan).
std::vector<std::vector<OpId>> dependencies(const Plan& plan);

/// An order in which every op follows its dependencies (lowest id first among the ready ones).
/// Throws Error naming an op of the cycle when there is none.
std::vector<OpId> topological_order(const Plan& plan);

/// Structural rules: ids in range, streams fit the work (runs_kernels), one kernel or one per
/// member, of one kind and shape but for their rows, `after` names only ops that share a GPU with
/// the waiting one, no cycles of ops, rows only between members, one row of the matrix per member,
/// a round or more. Throws Error with every mistake, each naming its op.
void check_plan(const Plan& plan);

}  // namespace moesim
