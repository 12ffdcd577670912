// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/connection_carrier.h"

#include <algorithm>
#include <utility>

namespace moesim {
namespace {

constexpr Bytes acknowledgement(66);  // Ethernet, IP and TCP with a timestamp

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

}  // namespace moesim
