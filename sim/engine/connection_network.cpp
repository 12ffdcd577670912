// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/connection_network.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/cores.h"

namespace moesim {
namespace {

constexpr Bytes acknowledgement(66);  // Ethernet, IP and TCP with a timestamp

class ConnectionNetwork : public Network {
 public:
  ConnectionNetwork(Events& events, const PricedPlan& plan, const Connections& connections,
                    Ended ended)
      : events_(events),
        priced_(plan),
        plan_(plan.plan()),
        host_(connections.host),
        ended_(std::move(ended)),
        carrier_(events, plan.topology(), connections,
                 [this](GpuId gpu) { return host_ ? &thread(gpu, Work::rank) : nullptr; }) {}

  void compute(const Progress::Joined& kernel, Seconds duration) override {
    const OpId op = kernel.op;
    const std::int32_t member = kernel.participant;
    SharedThread& of_kernels =
        thread(gpu(op, member), plan_[op].stream == Stream::compute ? Work::kernels : Work::copies);
    in_turn(kernel, kernel.at, host_->kernel_start, [this, op, member, duration, &of_kernels] {
      of_kernels.run(duration, [this, op, member] { ended_(op, member); });
    });
  }

  void join(const Progress::Joined& joined) override {
    const OpId op = joined.op;
    const std::int32_t member = joined.participant;
    const Bytes bytes = sent(active(op).members[static_cast<std::size_t>(member)]);
    const Seconds at = joined.at + priced_[op]->alone.overhead;
    if (!host_) return events_.call(at, [this, op, member] { begin(op, member); });
    in_turn(joined, at, host_->exchange_start + bytes / host_->pack,
            [this, op, member] { begin(op, member); });
  }

 private:
  struct Member {
    std::vector<std::pair<std::int32_t, Bytes>> sends;  // to whom
    std::size_t open = 1;                               // sends, receives, and its own joining
  };
  struct Active {
    std::vector<Member> members;
    std::size_t left;  // members for whom it has not ended
  };

  /// The threads of a rank: its own, which starts all and moves messages, and those of its streams.
  enum class Work { rank, kernels, copies };

  SharedThread& thread(GpuId gpu, Work work) {
    return threads_.try_emplace({gpu, work}, events_, cores(gpu)).first->second;
  }

  /// By the rank's own thread, from `at` on, for so long.
  void in_turn(const Progress::Joined& who, Seconds at, Seconds work, std::function<void()> done) {
    SharedThread& own = thread(gpu(who.op, who.participant), Work::rank);
    events_.call(
        at, [&own, work, done = std::move(done)]() mutable { own.run(work, std::move(done)); });
  }

  static Bytes sent(const Member& member) {
    Bytes sum;
    for (const auto& [to, bytes] : member.sends) sum += bytes;
    return sum;
  }

  GpuId gpu(OpId op, std::int32_t member) const {
    return plan_[op].group[static_cast<std::size_t>(member)];
  }

  /// Cores of the GPU's host, or of the machine that all hosts are.
  Cores& cores(GpuId gpu) {
    const int machine = host_->one_machine ? 0 : priced_.topology().host_of(gpu);
    return cores_.try_emplace(machine, host_->cores).first->second;
  }

  Active& active(OpId op) {
    const auto [place, added] = active_.try_emplace(op);
    Active& exchange = place->second;
    if (!added) return exchange;
    const GroupTraffic traffic = plan_[op].traffic();
    exchange.left = traffic.members.size();
    exchange.members.resize(exchange.left);
    const ByteMatrix moved = traffic.moved();
    for (int from = 0; from < moved.ranks(); ++from) {
      for (const ByteMatrix::Entry& entry : moved.row(GpuId(from))) {
        if (entry.to.value == from || moved.bytes(entry) == Bytes(0)) continue;
        Member& sender = exchange.members[static_cast<std::size_t>(from)];
        sender.sends.emplace_back(entry.to.value, moved.bytes(entry));
        ++sender.open;
        ++exchange.members[entry.to.index()].open;
      }
    }
    return exchange;
  }

  void begin(OpId op, std::int32_t member) {
    for (const auto& [to, bytes] : active_.at(op).members[static_cast<std::size_t>(member)].sends) {
      carrier_.send(
          gpu(op, member), gpu(op, to), bytes, [this, op, member] { close(op, member); },
          [this, op, to = to] { close(op, to); });
    }
    close(op, member);
  }

  void close(OpId op, std::int32_t member) {
    Active& exchange = active_.at(op);
    if (--exchange.members[static_cast<std::size_t>(member)].open > 0) return;
    if (--exchange.left == 0) active_.erase(op);
    ended_(op, member);
  }

  Events& events_;
  const PricedPlan& priced_;
  const Plan& plan_;
  const std::optional<HostCores>& host_;
  Ended ended_;
  std::map<int, Cores> cores_;
  std::map<std::pair<GpuId, Work>, SharedThread> threads_;
  ConnectionCarrier carrier_;
  std::map<OpId, Active> active_;
};

}  // namespace

ConnectionCarrier::ConnectionCarrier(Events& events, const Topology& topology,
                                     const Connections& connections, ThreadOf threads)
    : events_(events), topology_(topology), options_(connections), threads_(std::move(threads)) {
  for (const auto& [link, queue] : options_.queues) {
    queue_of_[link] = queues_.size();
    queues_.emplace_back(queue);
  }
}

std::vector<std::size_t> ConnectionCarrier::queues_of(const std::vector<LinkId>& links) const {
  std::vector<std::size_t> list;
  for (const LinkId link : links) {
    if (const auto found = queue_of_.find(link); found != queue_of_.end()) {
      list.push_back(found->second);
    }
  }
  return list;
}

/// TCP keeps to one of several equal-cost paths.
ConnectionCarrier::Connection& ConnectionCarrier::connection(GpuId from, GpuId to) {
  const auto [place, added] = connections_.try_emplace({from, to});
  Connection& c = place->second;
  if (added) {
    const std::vector<LinkId> forth = topology_.paths(from, to).front().links;
    c.forth = queues_of(forth);
    c.sender = threads_(from);
    c.receiver = threads_(to);
    c.back = queues_of(topology_.paths(to, from).front().links);
    for (const LinkId link : forth) c.latency += topology_.links()[link.index()].latency;
  }
  return c;
}

void ConnectionCarrier::send(GpuId from, GpuId to, Bytes bytes, std::function<void()> written,
                             std::function<void()> arrived) {
  Connection& c = connection(from, to);
  c.writing.push_back({bytes.value, std::move(written)});
  c.arriving.push_back({bytes.value, std::move(arrived)});
  write(c);
}

void ConnectionCarrier::write(Connection& c) {
  if (c.busy || c.writing.empty() || c.buffered >= options_.buffer.value) return;
  const std::int64_t bytes = std::min(c.writing.front().left, options_.buffer.value - c.buffered);
  c.busy = true;
  c.buffered += bytes;
  work(c.sender, bytes, [this, &c, bytes] { wrote(c, bytes); });
}

void ConnectionCarrier::wrote(Connection& c, std::int64_t bytes) {
  c.busy = false;
  c.unsent += bytes;
  Message& message = c.writing.front();
  message.left -= bytes;
  if (message.left == 0) {
    events_.call(events_.now(), std::move(message.done));
    c.writing.pop_front();
  }
  write(c);
  hand_on(c);
}

void ConnectionCarrier::hand_on(Connection& c) {
  while (c.unsent > 0 && c.queued < options_.queued.value) {
    const std::int64_t bytes = std::min(c.unsent, options_.segment.value);
    c.unsent -= bytes;
    c.queued += bytes;
    forward(c, bytes, 0);
  }
}

/// `done` is called at once if a rank has cores enough.
void ConnectionCarrier::work(SharedThread* thread, std::int64_t bytes, std::function<void()> done) {
  if (thread == nullptr) return done();
  thread->run(Bytes(bytes) / options_.host->carry, std::move(done));
}

void ConnectionCarrier::forward(Connection& c, std::int64_t bytes, std::size_t hop) {
  const Seconds left = hop < c.forth.size()
                           ? queues_[c.forth[hop]].serve(events_.now(), Bytes(bytes))
                           : events_.now();
  events_.call(left, [this, &c, bytes, hop] {
    if (hop == 0) {
      c.queued -= bytes;
      hand_on(c);
    }
    if (hop + 1 < c.forth.size()) return forward(c, bytes, hop + 1);
    acknowledge(c, bytes, 0);
    work(c.receiver, bytes, [this, &c, bytes] { arrive(c, bytes); });
  });
}

void ConnectionCarrier::arrive(Connection& c, std::int64_t bytes) {
  while (bytes > 0) {
    Message& message = c.arriving.front();
    const std::int64_t part = std::min(bytes, message.left);
    message.left -= part;
    bytes -= part;
    if (message.left > 0) return;
    events_.call(events_.now() + c.latency, std::move(message.done));
    c.arriving.pop_front();
  }
}

void ConnectionCarrier::acknowledge(Connection& c, std::int64_t bytes, std::size_t hop) {
  if (hop == c.back.size()) {
    c.buffered -= bytes;
    return write(c);
  }
  const Seconds left = queues_[c.back[hop]].serve(events_.now(), acknowledgement);
  events_.call(left, [this, &c, bytes, hop] { acknowledge(c, bytes, hop + 1); });
}

std::unique_ptr<Network> make_connection_network(Events& events, const PricedPlan& plan,
                                                 const Connections& connections,
                                                 Network::Ended ended) {
  return std::make_unique<ConnectionNetwork>(events, plan, connections, std::move(ended));
}

}  // namespace moesim
