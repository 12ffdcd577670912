// SPDX-License-Identifier: Apache-2.0
// A sender and a receiver per GPU, a mailbox per pair, routes with latencies, default precision.
#include "tests/bench/plain_simgrid.h"

#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "sim/engine/simgrid_api.h"

namespace moesim::bench {
namespace {

namespace s4u = simgrid::s4u;

std::vector<s4u::Host*> build(s4u::Engine& engine, const Topology& topology,
                              const ByteMatrix& traffic) {
  s4u::NetZone& root = *simgrid_api::cluster_zone(engine);
  s4u::NetZone* zone = simgrid_api::add_full_zone(root, "gpus");
  std::vector<s4u::Host*> hosts;
  for (int g = 0; g < topology.gpu_count(); ++g) {
    hosts.push_back(simgrid_api::add_host(*zone, "gpu" + std::to_string(g)));
  }
  std::vector<s4u::Link*> links;
  for (const Link& link : topology.links()) {
    const std::string name = "link" + std::to_string(links.size());
    links.push_back(
        simgrid_api::add_link(*zone, name, link.bandwidth.value)->set_latency(link.latency.value));
  }
  for (int from = 0; from < traffic.ranks(); ++from) {
    for (const auto& entry : traffic.row(GpuId(from))) {
      if (entry.to == GpuId(from)) continue;
      std::vector<s4u::LinkInRoute> route;
      const Path path = topology.paths(GpuId(from), entry.to).front();
      for (LinkId id : path.links) {
        route.emplace_back(links[id.index()]);
      }
      simgrid_api::add_route(*zone, *hosts[static_cast<std::size_t>(from)],
                             *hosts[entry.to.index()], route);
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
  for (const s4u::CommPtr& comm : comms) comm->wait();
}

void receive(const ByteMatrix& traffic, int to) {
  static int* payload = nullptr;
  std::vector<s4u::CommPtr> comms;
  for (const auto& entry : traffic.row(GpuId(to))) {  // the transposed matrix: entry.to sends
    if (entry.to == GpuId(to)) continue;
    comms.push_back(mailbox(entry.to.value, to)->get_async<int>(&payload));
  }
  for (const s4u::CommPtr& comm : comms) comm->wait();
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
  const auto hosts = build(engine, topology, traffic);
  for (int g = 0; g < topology.gpu_count(); ++g) {
    auto* host = hosts[static_cast<std::size_t>(g)];
    simgrid_api::add_actor("send", host, [&traffic, g] { send(traffic, g); });
    simgrid_api::add_actor("receive", host, [&received, g] { receive(received, g); });
  }
  engine.run();
  return Seconds(s4u::Engine::get_clock());
}

}  // namespace moesim::bench
