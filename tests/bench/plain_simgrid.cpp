// SPDX-License-Identifier: Apache-2.0
// A sender and a receiver per GPU, a mailbox per pair, routes with latencies, default precision.
#include "tests/bench/plain_simgrid.h"

#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace moesim::bench {
namespace {

namespace s4u = simgrid::s4u;

std::vector<s4u::Host*> build(const Topology& topology, const ByteMatrix& traffic) {
  s4u::NetZone* zone = s4u::create_full_zone("cluster");
  std::vector<s4u::Host*> hosts;
  for (int g = 0; g < topology.gpu_count(); ++g) {
    hosts.push_back(zone->create_host("gpu" + std::to_string(g), 1.0));
  }
  std::vector<s4u::Link*> links;
  for (const Link& link : topology.links()) {
    links.push_back(zone->create_link("link" + std::to_string(links.size()), link.bandwidth.value)
                        ->set_latency(link.latency.value));
  }
  for (int from = 0; from < traffic.ranks(); ++from) {
    for (const auto& entry : traffic.row(GpuId(from))) {
      if (entry.to == GpuId(from)) continue;
      std::vector<s4u::LinkInRoute> route;
      const Path path = topology.paths(GpuId(from), entry.to).front();
      for (LinkId id : path.links) {
        route.emplace_back(links[id.index()]);
      }
      zone->add_route(hosts[static_cast<std::size_t>(from)]->get_netpoint(),
                      hosts[entry.to.index()]->get_netpoint(), nullptr, nullptr, route, false);
    }
  }
  return hosts;
}

s4u::Mailbox* mailbox(int from, int to) {
  return s4u::Mailbox::by_name(std::to_string(from) + "-" + std::to_string(to));
}

void send(const ByteMatrix& traffic, int from) {
  static int payload = 0;
  std::vector<s4u::CommPtr> comms;
  for (const auto& entry : traffic.row(GpuId(from))) {
    if (entry.to == GpuId(from)) continue;
    const auto bytes = static_cast<std::uint64_t>(traffic.bytes(entry).value);
    comms.push_back(mailbox(from, entry.to.value)->put_async(&payload, bytes));
  }
  s4u::Comm::wait_all(comms);
}

void receive(const ByteMatrix& traffic, int to) {
  static int* payload = nullptr;
  std::vector<s4u::CommPtr> comms;
  for (const auto& entry : traffic.row(GpuId(to))) {  // the transposed matrix: entry.to sends
    if (entry.to == GpuId(to)) continue;
    comms.push_back(mailbox(entry.to.value, to)->get_async<int>(&payload));
  }
  s4u::Comm::wait_all(comms);
}

}  // namespace

Seconds plain_simgrid_exchange(const Topology& topology, const ByteMatrix& traffic) {
  std::vector<std::string> args = {"plain", "--log=root.thresh:critical",
                                   "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                                   "--cfg=network/TCP-gamma:1e12"};
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(args.size());
  s4u::Engine engine(&argc, argv.data());
  const ByteMatrix received = traffic.transposed();
  const auto hosts = build(topology, traffic);
  for (int g = 0; g < topology.gpu_count(); ++g) {
    auto* host = hosts[static_cast<std::size_t>(g)];
    s4u::Actor::create("send", host, [&traffic, g] { send(traffic, g); });
    s4u::Actor::create("receive", host, [&received, g] { receive(received, g); });
  }
  engine.run();
  return Seconds(s4u::Engine::get_clock());
}

}  // namespace moesim::bench
