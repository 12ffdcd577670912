// SPDX-License-Identifier: Apache-2.0
#include "sim/report/timeline_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/report/fused_memory.h"
#include "sim/report/spans.h"

namespace moesim {
namespace {

constexpr int bins = 1000;  // of a step's link loads

Seconds last_end(const OpIntervals& times) {
  Seconds last;
  for (const Interval& i : times) last = std::max(last, i.end);
  return last;
}

/// What a rank sends in an exchange.
struct Sent {
  Bytes same_host, other_host;
};

nlohmann::ordered_json args_of(const Op& op) {
  nlohmann::ordered_json args;
  if (op.key.layer >= 0) args["layer"] = op.key.layer;
  args["pass"] = name_of(op.key.pass);
  args["microbatch"] = op.key.microbatch;
  if (op.key.chunk != 0) args["chunk"] = op.key.chunk;
  args["op"] = name_of(op.key.type());
  if (op.key.stage != Stage::other) args["stage"] = name_of(op.key.stage);
  return args;
}

/// What a kernel computes, so that who reads the file can tell its rate.
struct ShapeArgs {
  nlohmann::ordered_json& args;

  void operator()(const GroupedGemm& gemm) const {
    args["m"] = gemm.m;
    args["n"] = gemm.n;
    args["k"] = gemm.k;
    args["type"] = name_of(gemm.type);
    if (gemm.wave) {
      args["tiles"] = gemm.wave->tiles;
      args["tiles_of_kernel"] = gemm.wave->of;
      args["tile"] = gemm.wave->tile;
    }
  }
  void operator()(const MemoryBound& kernel) const {
    args["bytes"] = kernel.read.value + kernel.written.value;
  }
  void operator()(const HostWork& work) const { args["host_ns"] = work.nanoseconds; }
  void operator()(const FusedAttention& attention) const {
    args["queries"] = attention.queries;
    args["attended"] = attention.attended;
    if (attention.keys > 0) args["keys"] = attention.keys;
    args["heads"] = attention.shape.heads;
    args["kv_heads"] = attention.shape.kv_heads;
    args["qk_width"] = attention.shape.qk_width;
    args["v_width"] = attention.shape.v_width;
    args["type"] = name_of(attention.shape.type);
  }
};

/// The busiest link that an exchange uses, as (class, bytes).
std::pair<int, Bytes> busiest_of(const PricedExchange& price, const Topology& topology) {
  const auto busiest = std::ranges::max_element(price.loads.uses, {}, &LinkUse::time);
  if (busiest == price.loads.uses.end()) return {0, Bytes(0)};
  return {topology.links()[busiest->link.index()].link_class, busiest->bytes};
}

/// Bytes per second on every link class, mean over bins of equal length.
class Loads {
 public:
  Loads(std::size_t classes, Seconds makespan)
      : width_(makespan.value / bins), bytes_(classes, std::vector<double>(bins, 0.0)) {}

  void add(std::size_t link_class, double bytes, Seconds begin, Seconds end) {
    if (width_ <= 0) return;
    const double from = std::clamp(begin.value / width_, 0.0, 1.0 * bins);
    const double to = std::clamp(end.value / width_, from, 1.0 * bins);
    auto bin = static_cast<std::size_t>(std::min(from, bins - 1.0));
    if (to <= from) {
      bytes_[link_class][bin] += bytes;
      return;
    }
    for (; static_cast<double>(bin) < to; ++bin) {
      const auto left = static_cast<double>(bin);
      const double part = std::min(to, left + 1) - std::max(from, left);
      bytes_[link_class][bin] += bytes * part / (to - from);
    }
  }
  Seconds begin(int bin) const { return Seconds(width_ * bin); }
  double rate(std::size_t link_class, int bin) const {
    return bytes_[link_class][static_cast<std::size_t>(bin)] / width_;
  }
  bool any(std::size_t link_class) const {
    return std::ranges::any_of(bytes_[link_class], [](double b) { return b > 0; });
  }

 private:
  double width_;
  std::vector<std::vector<double>> bytes_;  // [class][bin]
};

}  // namespace

TimelineEvents::TimelineEvents(TraceEvents& out, TimelineCase of, const Topology& topology)
    : out_(out),
      case_(std::move(of)),
      topology_(topology),
      named_(static_cast<std::size_t>(topology.gpu_count())),
      streams_(static_cast<std::size_t>(topology.gpu_count())) {
  for (const GpuId gpu : case_.ranks) name_rank(gpu);
  const std::string before = case_.name.empty() ? "" : case_.name + ": ";
  out_.name_process(cluster(), before + "the whole cluster");
  out_.name_thread({cluster(), 0}, "steps");
}

void TimelineEvents::name_rank(GpuId gpu) {
  if (named_[gpu.index()]) return;
  named_[gpu.index()] = true;
  const std::string before = case_.name.empty() ? "" : case_.name + ": ";
  out_.name_process(process(gpu),
                    fmt::format("{}rank {} ({})", before, gpu.value,
                                topology_.vertices()[topology_.vertex_of(gpu).index()].name));
}

void TimelineEvents::add_memory(GpuId gpu, const std::vector<MemoryMoment>& moments) {
  name_rank(gpu);
  for (const MemoryMoment& m : moments) {
    out_.counter(process(gpu), "memory [B]", at(m.from), m.parts);
  }
}

void TimelineEvents::add(const PricedPlan& plan, const Timeline& timeline,
                         const std::string& name) {
  out_.slice({{cluster(), 0}, at(Seconds(0)), at(timeline.makespan), name, "step"});
  for (std::size_t op = 0; op < timeline.ops.size(); ++op) add_op(plan, timeline, op);
  add_loads(plan, timeline);
  add_fused(plan, timeline);
  offset_ = at(timeline.makespan);
}

void TimelineEvents::add_fused(const PricedPlan& plan, const Timeline& timeline) {
  for (const FusedMemory& memory : fused_memory(plan.plan(), timeline, case_.ranks)) {
    const std::string name =
        fmt::format("fused layer {}, {} [B]", memory.layer, name_of(memory.pass));
    for (const auto& [from, held] : memory.moments) {
      const auto bytes = [](Bytes b) { return static_cast<double>(b.value); };
      out_.counter(process(memory.gpu), name, at(from),
                   {{"received rows", bytes(held.received)},
                    {"between products", bytes(held.inner)},
                    {"results", bytes(held.results)}});
    }
  }
}

void TimelineEvents::add_op(const PricedPlan& plan, const Timeline& timeline, std::size_t index) {
  const Op& op = plan.plan().ops[index];
  const OpIntervals times = timeline.ops[index];
  const int stream = static_cast<int>(op.stream);
  std::vector<Sent> sent;
  const auto [link, link_bytes] = op.exchange() == nullptr
                                      ? std::pair(0, Bytes(0))
                                      : busiest_of(*plan[OpId(static_cast<int>(index))], topology_);
  for (const OpSpan& span : spans_of(op, times, case_.ranks)) {
    const auto& [rank, member, start, moving, end] = span;
    if (op.exchange() != nullptr && sent.empty()) {
      sent.resize(op.group.size());
      op.traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
        if (from == to) return;
        Sent& by = sent[op.group.member(from)];
        const bool inside = topology_.host_of(from) == topology_.host_of(to);
        (inside ? by.same_host : by.other_host) += bytes;
      });
    }
    if ((streams_[rank.index()] >> stream & 1U) == 0) {
      streams_[rank.index()] |= 1U << stream;
      out_.name_thread({process(rank), stream}, name_of(op.stream));
    }
    auto args = args_of(op);
    if (op.exchange() != nullptr) {
      args["to_same_host_bytes"] = sent[member].same_host.value;
      args["to_other_hosts_bytes"] = sent[member].other_host.value;
      args["waiting_us"] = (moving - start).value * 1e6;
      args["ranks"] = op.group.size();
      args["op_id"] = index;
      args["link"] = topology_.classes()[static_cast<std::size_t>(link)].name;
      args["link_bytes"] = link_bytes.value;
    } else {
      std::visit(ShapeArgs{args}, op.kernels()->of(member));
    }
    out_.slice({{process(rank), stream},
                at(start),
                at(end),
                op.label.text(),
                op.exchange() != nullptr ? "exchange" : "kernel",
                args.dump()});
    const bool expert_rows = op.key.type() == OpType{OpKind::fc1} && op.kernels() != nullptr;
    const auto* gemm = expert_rows ? std::get_if<GroupedGemm>(&op.kernels()->of(member)) : nullptr;
    if (gemm == nullptr) continue;
    std::vector<std::pair<std::string, double>> rows;
    for (std::size_t e = 0; e < gemm->m.size(); ++e) {
      rows.emplace_back(fmt::format("expert slot {}", e), static_cast<double>(gemm->m[e]));
    }
    out_.counter(process(rank), "tokens per expert", at(start), rows);
  }
  if (!sent.empty()) add_arrows(op, times);
}

void TimelineEvents::add_arrows(const Op& op, const OpIntervals& times) {
  const std::vector<Seconds> moving = moving_from(op, times);
  const int stream = static_cast<int>(op.stream);
  const auto shown = [&](GpuId gpu) { return std::ranges::binary_search(case_.ranks, gpu); };
  op.traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
    if (from == to || bytes.value == 0 || !shown(from) || !shown(to)) return;
    const std::size_t member = op.group.member(from);
    const Interval& sender = times[member];
    const Interval& receiver = times[op.group.member(to)];
    // Just inside the slices, to which viewers tie arrows by their moments.
    const Picoseconds end = at(receiver.end) - 1;
    const Picoseconds begin =
        std::min({at(moving[static_cast<std::size_t>(op.place_of(member).collective)]),
                  at(sender.end) - 1, end});
    if (begin < at(sender.start) || end < at(receiver.start)) return;  // they take no time
    out_.arrow({process(from), stream}, begin, {process(to), stream}, end, op.label.text());
  });
}

void TimelineEvents::add_loads(const PricedPlan& plan, const Timeline& timeline) {
  const std::size_t classes = topology_.classes().size();
  Loads loads(classes, timeline.makespan);
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    const Op& op = plan.plan().ops[i];
    if (op.exchange() == nullptr) continue;
    const PricedExchange& price = *plan[OpId(static_cast<int>(i))];
    std::vector<double> bytes(classes, 0.0);
    for (const LinkUse& use : price.loads.uses) {
      const int link_class = topology_.links()[use.link.index()].link_class;
      bytes[static_cast<std::size_t>(link_class)] += static_cast<double>(use.bytes.value);
    }
    const Seconds end = last_end(timeline.ops[i]);
    const Seconds first = std::ranges::min(moving_from(op, timeline.ops[i]));
    const Seconds begin = std::min(end, first + price.start());
    for (std::size_t c = 0; c < classes; ++c) {
      if (bytes[c] > 0) loads.add(c, bytes[c], begin, end);
    }
  }
  for (std::size_t c = 0; c < classes; ++c) {
    if (!loads.any(c)) continue;
    const std::string name = fmt::format("{} links [B/s]", topology_.classes()[c].name);
    double before = -1;
    for (int bin = 0; bin < bins; ++bin) {
      const double rate = loads.rate(c, bin);
      if (rate != before)
        out_.counter(cluster(), name, at(loads.begin(bin)), {{"all links", rate}});
      before = rate;
    }
    out_.counter(cluster(), name, at(timeline.makespan), {{"all links", 0}});
  }
}

}  // namespace moesim
