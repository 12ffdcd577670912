// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/host_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/base/unsuitable.h"
#include "sim/plan/fused_kernels.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

/// What has to be equal of ops in one graph.
using GraphKey = std::tuple<int, int, int, Pass, bool>;

GraphKey graph_of(const GraphModules& graphs, const OpKey& key) {
  if (graphs.has(GraphModule::full_iteration)) return {};
  return {key.layer, key.microbatch, key.chunk, key.pass, key.role == Role::recompute};
}

std::optional<BlockKind> block_of(const OpKey& key) {
  if (key.layer < 0) return std::nullopt;
  if (key.kind == OpKind::norm) return block_in(key.part);
  if (key.kind == OpKind::tensor_exchange) {
    return key.stage == Stage::other ? block_in(key.part / 2) : BlockKind::moe;
  }
  return std::nullopt;
}

/// One GPU's host at a place of its program.
struct Host {
  Seconds elapsed;                     // since it last waited
  std::int32_t wait = -1;              // for which that was
  std::optional<GraphKey> graph = {};  // that it issued last, if nothing came behind
  std::optional<OpKey> call = {};      // of tokens, if no kernel came behind
};

/// What issuing an op takes, and how many launches that is.
struct Issue {
  Seconds time;
  int launches = 0;
};

/// Phases of a dispatch that no kernel divides are one call.
bool continues_call(Host& host, const Op& op, const Kernel* kernel) {
  if (kernel != nullptr) {
    if (!std::holds_alternative<HostWork>(*kernel)) host.call.reset();
    return false;
  }
  OpKey key = op.key;
  key.part = 0;
  const bool continues = op.key.kind == OpKind::token_exchange && host.call == key;
  host.call = key;
  return continues;
}

Issue issue_of(const HostModel& model, Host& host, const Op& op, const Kernel* kernel,
               const Transport* transport) {
  if (captured(model.graphs, op.key.type(), block_of(op.key))) {
    const GraphKey graph = graph_of(model.graphs, op.key);
    const bool issued = host.graph == graph;
    host.call.reset();
    host.graph = graph;
    return issued ? Issue() : Issue{model.per_graph, 1};
  }
  host.graph.reset();
  if (continues_call(host, op, kernel)) return {};
  HostCalls calls = host_calls(op.key.type(), kernel, model.grouped);
  if (transport == nullptr || !transport->host) return {model.time(calls), calls.kernels};
  const Seconds by_transport = *transport->host * std::exchange(calls.collectives, 0);
  return {model.time(calls) + by_transport, calls.kernels};
}

/// What an op that takes `duration` on its GPU is held for, from when its host comes to it.
Seconds held(const Issue& issue, Seconds duration) {
  if (issue.launches <= 1) return issue.time;
  const double others = 1 - 1.0 / issue.launches;
  return std::max(issue.time * (1 - others), issue.time - duration * others);
}

/// Host work on the stream of kernels, which all hosts wait for.
bool is_work_of_host(const Op& op) {
  return op.stream == Stream::compute && op.kernels() != nullptr &&
         std::holds_alternative<HostWork>(op.kernels()->each().front());
}

/// A graph is launched as a whole, so its host cannot wait for an op inside. Planning may be a
/// kernel: it divides a graph, as what no graph holds does.
void refuse_wait_in_graph(const HostModel& host, const Op& op) {
  const OpType type = op.key.type();
  if (type.kind == OpKind::planning || !captured(host.graphs, type, block_of(op.key))) return;
  const bool reads = is_work_of_host(op);
  throw Unsuitable(
      fmt::format(
          "host.graphs: a CUDA graph of {} cannot hold '{}' of layer {}, for which the host "
          "waits before it launches what follows ({})",
          fmt::join(host.graphs.names(graph_module_names()), ", "), op.label.text(), op.key.layer,
          reads ? "host_wait of the dispatch" : "host.waits_for"),
      reads ? "a dispatch that does not wait (host_wait: 0 us), graphs of attention only "
              "(host.graphs: [attn]), or none (serving.graphs: false)"
            : "host.waits_for: [], or graphs without that op");
}

}  // namespace

bool is_waited_for(const HostModel& host, const Op& op) {
  return is_work_of_host(op) ||
         std::ranges::find(host.waits_for, op.key.kind) != host.waits_for.end();
}

HostProgram::HostProgram(const Plan& plan, const GpuModels& gpus, const Duration& duration)
    : plan_(plan) {
  if (std::ranges::none_of(gpus, [](const auto& gpu) { return gpu->host.takes_time(); })) return;
  for (const auto& gpu : gpus) {
    for (const OpKind kind : gpu->host.waits_for) {
      waits_for_.at(static_cast<std::size_t>(kind)) = true;
    }
  }
  issue_all(gpus, duration);
}

bool HostProgram::waits(const Op& op) const {
  return waits_for_.at(static_cast<std::size_t>(op.key.kind)) || is_work_of_host(op);
}

void HostProgram::issue_all(const GpuModels& gpus, const Duration& duration) {
  std::vector<Host> hosts(gpus.size());
  std::size_t members = 0;
  for (const Op& op : plan_.ops) members += op.group.size();
  issued_.reserve(members);
  wait_.reserve(members);
  for (std::size_t id = 0; id < plan_.ops.size(); ++id) {
    const Op& op = plan_.ops[id];
    first_.push_back(static_cast<std::int64_t>(issued_.size()));
    first_wait_.push_back(-1);
    const Transport* transport =
        op.exchange() != nullptr ? transport_of(plan_.transports, op) : nullptr;
    const bool waited = waits(op);
    if (waited) {
      first_wait_.back() = static_cast<std::int32_t>(resumed_.size());
      resumed_.resize(resumed_.size() + op.group.size());
    }
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const GpuId gpu = op.group[m];
      Host& host = hosts[gpu.index()];
      const Kernel* kernel = op.kernels() != nullptr ? &op.kernels()->of(m) : nullptr;
      const Issue issue = issue_of(gpus[gpu.index()]->host, host, op, kernel, transport);
      issued_.push_back(host.elapsed + held(issue, duration(id, static_cast<std::int32_t>(m))));
      wait_.push_back(host.wait);
      host.elapsed += issue.time;
      if (!waited) continue;
      refuse_wait_in_graph(gpus[gpu.index()]->host, op);
      host = {Seconds(0), first_wait_.back() + static_cast<std::int32_t>(m)};
    }
  }
}

}  // namespace moesim
