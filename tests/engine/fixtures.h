// SPDX-License-Identifier: Apache-2.0
// Small clusters and plans whose times can be worked out in one's head.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"
#include "sim/topology/topology.h"

namespace moesim::test {

constexpr Seconds milliseconds(double value) { return Seconds(value * 1e-3); }

/// GPUs around one switch: a port of 50 GB/s each way, 2.5 us per link, so 5 us per route.
/// Routes to and from the last GPU take 20 us more if it is `far`.
inline Topology star(int gpus, Seconds overhead = Seconds(0), bool far = false) {
  Topology::Parts parts;
  parts.name = "star";
  parts.classes = {{"port", Tier::fabric}};
  parts.exchange_overhead = overhead;
  const VertexId hub(gpus);
  Level cluster{"cluster", {}, 1};
  for (int g = 0; g < gpus; ++g) {
    parts.vertices.push_back({"gpu" + std::to_string(g), VertexKind::gpu, g});
    parts.gpus.push_back(VertexId(g));
    parts.gpu_model.push_back("test");
    cluster.group_of.push_back(0);
    for (const auto& [from, to] : {std::pair(VertexId(g), hub), std::pair(hub, VertexId(g))}) {
      parts.links.push_back({.from = from,
                             .to = to,
                             .bandwidth = BytesPerSecond(50e9),
                             .latency = Seconds(far && g == gpus - 1 ? 22.5e-6 : 2.5e-6)});
    }
  }
  parts.vertices.push_back({"hub", VertexKind::leaf, -1});
  parts.levels = {std::move(cluster)};
  return Topology(std::move(parts));
}

/// Nodes of 8 GPUs with an NVLink port (450 GB/s, 1 us) and a NIC (50 GB/s, 2 us) each way per GPU.
inline Topology nodes_of_8(int nodes) {
  Topology::Parts parts;
  parts.name = "nodes";
  parts.classes = {{"nvlink", Tier::host}, {"nic", Tier::fabric}};
  const auto add = [&](const std::string& name, VertexKind kind, int host) {
    parts.vertices.push_back({name, kind, host});
    return VertexId(static_cast<std::int64_t>(parts.vertices.size()) - 1);
  };
  const auto join = [&](VertexId a, VertexId b, double rate, double latency, int link_class) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      parts.links.push_back({.from = from,
                             .to = to,
                             .bandwidth = BytesPerSecond(rate),
                             .latency = Seconds(latency),
                             .link_class = link_class});
    }
  };
  Level cluster{"cluster", {}, 1};
  Level node{"node", {}, nodes};
  const VertexId leaf = add("leaf", VertexKind::leaf, -1);
  for (int n = 0; n < nodes; ++n) {
    const std::string prefix = "node" + std::to_string(n) + ".";
    const VertexId nvswitch = add(prefix + "nvswitch", VertexKind::nvswitch, n);
    for (int g = 0; g < 8; ++g) {
      const VertexId gpu = add(prefix + "gpu" + std::to_string(g), VertexKind::gpu, n);
      join(gpu, nvswitch, 450e9, 1e-6, 0);
      join(gpu, leaf, 50e9, 2e-6, 1);
      parts.gpus.push_back(gpu);
      parts.gpu_model.push_back("test");
      cluster.group_of.push_back(0);
      node.group_of.push_back(n);
    }
  }
  parts.levels = {std::move(cluster), std::move(node)};
  return Topology(std::move(parts));
}

/// Two GPUs on leaves that two spines join, each by links of half a GPU's 50 GB/s; 10 us per route.
inline Topology two_spines() {
  Topology::Parts parts;
  parts.name = "two spines";
  parts.classes = {{"link", Tier::fabric}};
  parts.vertices = {{"gpu0", VertexKind::gpu, 0},      {"gpu1", VertexKind::gpu, 1},
                    {"leaf0", VertexKind::leaf, -1},   {"leaf1", VertexKind::leaf, -1},
                    {"spine0", VertexKind::spine, -1}, {"spine1", VertexKind::spine, -1}};
  parts.gpus = {VertexId(0), VertexId(1)};
  parts.gpu_model = {"test", "test"};
  parts.levels = {{"cluster", {0, 0}, 1}};
  const auto join = [&](int a, int b, double rate) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      parts.links.push_back({.from = VertexId(from),
                             .to = VertexId(to),
                             .bandwidth = BytesPerSecond(rate),
                             .latency = Seconds(2.5e-6)});
    }
  };
  for (int side : {0, 1}) {
    join(side, 2 + side, 50e9);
    for (int spine : {4, 5}) join(2 + side, spine, 25e9);
  }
  return Topology(std::move(parts));
}

/// Reads 1 GB of memory per millisecond and launches kernels for nothing.
inline GpuModels test_gpus(int count) {
  auto gpu = std::make_shared<GpuModel>();
  gpu->name = "test";
  gpu->memory_bandwidth = BytesPerSecond(1e12);
  return GpuModels(static_cast<std::size_t>(count), gpu);
}

struct Transfer {
  int from, to;
  std::int64_t bytes;
};

inline ByteMatrix matrix_of(int gpus, const std::vector<Transfer>& transfers) {
  const auto n = static_cast<std::size_t>(gpus);
  std::vector<std::int64_t> dense(n * n);
  for (const auto& [from, to, bytes] : transfers) {
    dense[static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to)] += bytes;
  }
  return ByteMatrix::from_dense(gpus, dense);
}

/// Writes plans in a line per op.
class PlanWriter {
 public:
  explicit PlanWriter(int gpus) { plan_.gpus = gpus; }

  /// A kernel of `time` on a test GPU.
  OpId compute(int gpu, Seconds time, std::vector<OpId> after = {},
               Stream stream = Stream::compute) {
    const auto bytes = static_cast<std::int64_t>(time.value * 1e12 + 0.5);
    return kernel(gpu, MemoryBound{Bytes(bytes), Bytes(0)}, std::move(after), stream);
  }
  OpId kernel(int gpu, Kernel kernel, std::vector<OpId> after = {},
              Stream stream = Stream::compute) {
    return add("compute", stream, {GpuId(gpu)}, std::move(after), Kernels(std::move(kernel)));
  }
  /// An exchange among `gpus`.
  OpId exchange(const std::vector<int>& gpus, const std::vector<Transfer>& transfers,
                std::vector<OpId> after = {}, Stream stream = Stream::ep) {
    return traffic(gpus, matrix_of(plan_.gpus, transfers), std::move(after), stream);
  }
  /// What the matrix, over all GPUs, has between these.
  OpId traffic(const std::vector<int>& gpus, const ByteMatrix& matrix, std::vector<OpId> after = {},
               Stream stream = Stream::ep) {
    const Group group(std::vector<GpuId>(gpus.begin(), gpus.end()));
    return add("exchange", stream, group, std::move(after), Exchange{matrix.among(group), {}});
  }

  /// A matrix over only the members.
  OpId among(Group group, ByteMatrix matrix) {
    return add("exchange", Stream::ep, std::move(group), {}, Exchange{std::move(matrix), {}});
  }

  const Plan& plan() const { return plan_; }
  /// For edges that only a broken plan has.
  void wait(OpId op, OpId after) { plan_.ops[op.index()].after.push_back(after); }

 private:
  OpId add(std::string name, Stream stream, Group group, std::vector<OpId> after,
           std::variant<Kernels, Exchange> work) {
    Op op;
    op.label = std::move(name);
    op.stream = stream;
    op.group = std::move(group);
    op.after = std::move(after);
    op.work = std::move(work);
    return plan_.add(std::move(op));
  }

  Plan plan_;
};

inline std::vector<int> all_of(int gpus) {
  std::vector<int> list;
  for (int g = 0; g < gpus; ++g) list.push_back(g);
  return list;
}

/// An all-to-all in which receivers differ by up to `skew`, and each entry by up to two.
inline ByteMatrix uneven(const std::vector<int>& gpus, int ranks, double mean_bytes, double skew,
                         std::mt19937& random) {
  std::uniform_real_distribution<double> one(0, 1);
  std::vector<double> popularity;
  for (int rank = 0; rank < ranks; ++rank) popularity.push_back(1 + (skew - 1) * one(random));
  std::vector<std::vector<std::uint32_t>> rows(static_cast<std::size_t>(ranks));
  for (auto& row : rows) row.resize(static_cast<std::size_t>(ranks));
  for (int from : gpus) {
    for (int to : gpus) {
      const double bytes =
          mean_bytes * popularity[static_cast<std::size_t>(to)] * (1 + one(random));
      rows[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] =
          static_cast<std::uint32_t>(bytes);
    }
  }
  ByteMatrix matrix;
  for (const auto& row : rows) matrix.add_dense_row(row);
  return matrix;
}

}  // namespace moesim::test
