// SPDX-License-Identifier: Apache-2.0
// Opens a 480 MB trace (58 layers x 1,048,576 tokens x 8 of 256 experts) and counts its byte
// matrices for 256 GPUs, with every expert in one place or split over two replicas; prints the
// memory used above the mapping.
#include <benchmark/benchmark.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "sim/mechanism/mechanisms.h"
#include "sim/plan/plan.h"
#include "sim/topology/reader.h"
#include "sim/trace/memory_step.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

constexpr int gpus = 256;
constexpr int experts = 256;
constexpr int top_k = 8;
constexpr int layers = 58;
constexpr std::int64_t tokens = 1 << 20;

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

TraceInfo trace_info() {
  TraceInfo info{"count-bench", "synthetic", experts, top_k, {}, Phase::synthetic, "{}"};
  for (int l = 0; l < layers; ++l) info.layers.push_back(l);
  return info;
}

/// Writes the trace unless it is there; choices are skewed: the smaller of two draws, all
/// different.
std::string trace_folder() {
  const auto path = std::filesystem::temp_directory_path() / "moesim-count-bench";
  if (std::filesystem::exists(path / "step-00000000")) return path.string();
  std::filesystem::remove_all(path);
  const TraceInfo info = trace_info();
  StepArrays arrays;
  arrays.ids = IdArray(experts, std::int64_t{layers} * tokens * top_k);
  arrays.sequence_lengths.assign(gpus, static_cast<std::int32_t>(tokens / gpus));
  std::uint64_t state = 1;
  for (std::int64_t row = 0; row < layers * tokens; ++row) {
    std::array<bool, experts> taken{};
    for (int k = 0; k < top_k; ++k) {
      std::size_t e = 0;
      do {
        const std::uint64_t draw = next_random(state);
        e = std::min(draw & 255, draw >> 8 & 255);
      } while (taken[e]);
      taken[e] = true;
      arrays.ids.set(row * top_k + k, static_cast<int>(e));
    }
  }
  auto writer = TraceWriter::create(path.string(), info, TraceWriter::Publish::at_end);
  writer.append_step(*make_step(info, std::move(arrays)));
  writer.finish();
  return path.string();
}

/// A figure of /proc/self/status in megabytes.
double status_mb(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    double kib = 0;
    if (word == key + ":" && in >> kib) return kib * 1024 / 1e6;
  }
  return 0;
}

/// Two slots on every GPU; the choices of an expert alternate between its replicas.
Assignment in_turn() {
  SlotTable table(gpus);
  for (int g = 0; g < gpus; ++g) {
    table[static_cast<std::size_t>(g)] = {ExpertId(g), ExpertId((g + gpus / 2) % experts)};
  }
  Placement placement(experts, table);
  std::vector<Shares> of_rank;
  for (int e = 0; e < experts; ++e) {
    Shares& shares = of_rank.emplace_back();
    for (const SlotId slot : placement.slots_of(ExpertId(e))) shares.push_back({slot, 1});
  }
  return Assignment(std::move(placement), std::vector(gpus, of_rank));
}

void count_matrices(benchmark::State& state, const char* name, const char* params, bool split) {
  const std::string folder = trace_folder();
  static const TopologyFile cluster =
      read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml", {parse_override("nodes=32")});
  const Group everybody = Group::first(gpus);
  double peak = 0;
  for (auto _ : state) {
    const RoutingTrace trace = RoutingTrace::open(folder);
    const Batches batches = make_batches(trace, {gpus, std::nullopt, 1});
    const Assignment assignment =
        split ? in_turn() : Assignment(contiguous_placement(experts, gpus, gpus), gpus);
    for (const auto& mechanism : dispatch_mechanisms()) {
      if (std::string(name) != mechanism.name) continue;
      const auto doc = YamlDocument::from_text(params, "none");
      const MoeModel model;
      const auto dispatch = mechanism.read(doc->root().map())(
          {cluster.topology, model, cluster.topology.gpu_count()});
      for (int layer = 0; layer < layers; ++layer) {
        const IdRows ids = trace.step(0).ids(layer);
        const RowCounts counts = dispatch->count({batches.batches[0], ids, assignment});
        for (const auto& phase : counts.phases) {
          const ByteMatrix matrix = traffic_among(everybody.list(), phase, Bytes(7168 * 2));
          benchmark::DoNotOptimize(matrix.total());
        }
      }
    }
    peak = std::max(peak, status_mb("RssAnon"));
  }
  state.counters["RssAnon_MB"] = peak;
  state.counters["ids_per_s"] = benchmark::Counter(static_cast<double>(layers * tokens * top_k),
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

void counted(const char* name, const char* dispatch, const char* params, bool split) {
  benchmark::RegisterBenchmark(name, count_matrices, dispatch, params, split)
      ->Unit(benchmark::kSecond);
}

}  // namespace
}  // namespace moesim

int main(int argc, char** argv) {
  moesim::counted("alltoall", "alltoall", "{}", false);
  moesim::counted("dedup", "dedup", "{}", false);
  moesim::counted("hd2", "hierarchical", "{depth: 2}", false);
  moesim::counted("deepep-normal", "deepep-normal", "{}", false);
  moesim::counted("alltoall, split", "alltoall", "{}", true);
  moesim::counted("hd2, split", "hierarchical", "{depth: 2}", true);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
