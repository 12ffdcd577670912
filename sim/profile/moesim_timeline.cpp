// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/moesim_timeline.h"

#include <algorithm>
#include <array>

#include "sim/base/error.h"

namespace moesim {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 50;

KernelKind kind_of_exchange(OpKind kind, std::string_view stage) {
  switch (kind) {
    case OpKind::token_exchange:
      return stage == "combine" ? KernelKind::combine : KernelKind::dispatch;
    case OpKind::side_exchange:
      return KernelKind::notify;
    case OpKind::parameter_exchange:
      return stage == "gather"   ? KernelKind::all_gather
             : stage == "reduce" ? KernelKind::reduce_scatter
                                 : KernelKind::send_recv;
    case OpKind::weight_exchange:
      return KernelKind::all_gather;
    case OpKind::stage_transfer:
      return KernelKind::send_recv;
    case OpKind::gradient_sum:
    case OpKind::gradient_exchange:
      return KernelKind::all_reduce;
    case OpKind::tensor_exchange:
    case OpKind::context_exchange:
      return KernelKind::other_exchange;
    default:
      return KernelKind::unknown;
  }
}

KernelKind kind_of_work(OpKind kind) {
  switch (kind) {
    case OpKind::attention_projections:
    case OpKind::shared_fc1:
    case OpKind::shared_fc2:
    case OpKind::latent_down:
    case OpKind::latent_up:
    case OpKind::attention_output:
    case OpKind::mamba_projection:
    case OpKind::dense_fc1:
    case OpKind::dense_fc2:
    case OpKind::mtp_projection:
    case OpKind::head:
      return KernelKind::gemm;
    case OpKind::fc1:
    case OpKind::fc2:
      return KernelKind::grouped_gemm;
    case OpKind::attention_scores:
      return KernelKind::attention;
    case OpKind::gate:
      return KernelKind::router;
    case OpKind::activation:
    case OpKind::dense_activation:
      return KernelKind::activation;
    case OpKind::norm:
    case OpKind::mamba_norm:
      return KernelKind::norm;
    case OpKind::permute:
    case OpKind::transpose:
    case OpKind::relay:
    case OpKind::sort:
    case OpKind::stash:
    case OpKind::reduce:
    case OpKind::unpermute:
      return KernelKind::permute;
    case OpKind::encode:
    case OpKind::decode:
      return KernelKind::cast;
    case OpKind::embedding:
      return KernelKind::embedding;
    case OpKind::mamba_conv:
      return KernelKind::convolution;
    case OpKind::mamba_scan:
      return KernelKind::scan;
    case OpKind::loss:
      return KernelKind::loss;
    case OpKind::optimizer:
      return KernelKind::optimizer;
    case OpKind::planning:
    case OpKind::host_read:
    case OpKind::minimum_time:
      return KernelKind::host;
    default:
      return KernelKind::unknown;
  }
}

std::optional<DataType> type_named(std::string_view name) {
  const auto at = std::ranges::find(data_type_names(), name);
  if (at == data_type_names().end()) return std::nullopt;
  return static_cast<DataType>(at - data_type_names().begin());
}

/// What tells the shapes of a timeline apart.
std::string shape_key(const FlatObject& event) {
  std::string key;
  for (const char* arg :
       {"op", "m", "n", "k", "type", "bytes", "queries", "attended", "keys", "pass"}) {
    key += event.in("args", arg);
    key += ' ';
  }
  return key;
}

/// What `--timeline` says of a kernel's work.
std::optional<WorkShape> shape_of(const FlatObject& event, const std::optional<OpType>& op) {
  const auto whole = [&](const char* key) {
    return std::min<std::int64_t>(flat_whole(event.in("args", key)), 1 << 26);
  };
  const auto type = type_named(event.in("args", "type"));
  if (const std::int64_t bytes = flat_whole(event.in("args", "bytes")); bytes > 0) {
    return WorkShape{op, MemoryBound{Bytes(bytes), Bytes(0)}};
  }
  if (!type) return std::nullopt;
  if (const std::int64_t queries = whole("queries"); queries > 0) {
    FusedAttention attention;
    attention.queries = queries;
    attention.attended = whole("attended");
    attention.shape = {static_cast<int>(whole("heads")),
                       static_cast<int>(whole("kv_heads")),
                       static_cast<int>(whole("qk_width")),
                       static_cast<int>(whole("v_width")),
                       *type,
                       op ? op->pass : Pass::forward};
    attention.keys = std::max<std::int64_t>(0, whole("keys"));
    return WorkShape{op, attention};
  }
  GroupedGemm gemm{{}, whole("n"), whole("k"), *type};
  for (const std::string_view rows : flat_items(event.in("args", "m"))) {
    gemm.m.push_back(std::clamp<std::int64_t>(flat_whole(rows), 0, 1 << 26));
  }
  if (gemm.n < 1 || gemm.k < 1 || gemm.m.empty()) return std::nullopt;
  return WorkShape{op, gemm};
}

}  // namespace

KernelKind kind_of_op(const OpType& op, std::string_view stage) {
  if (op.kind == OpKind::attention_scores && op.pass == Pass::backward &&
      op.role != Role::recompute) {
    return KernelKind::attention_backward;
  }
  const KernelKind exchange = kind_of_exchange(op.kind, stage);
  return exchange != KernelKind::unknown ? exchange : kind_of_work(op.kind);
}

std::optional<MoesimTimeline> MoesimTimeline::of(std::string_view other_data) {
  if (flat_object(other_data)("moesim").empty()) return std::nullopt;
  return MoesimTimeline();
}

void MoesimTimeline::take(const FlatObject& event, KernelNames& names, const std::string& path) {
  const std::string_view phase = event("ph");
  if (phase == "M") take_name(event, path);
  if (phase == "X") take_slice(event, names, path);
}

void MoesimTimeline::take_name(const FlatObject& event, const std::string& path) {
  const std::int64_t number = flat_whole(event("pid"));
  const std::string_view name = event.in("args", "name");
  if (event("name") == "thread_name") {
    processes_[number].streams.insert_or_assign(std::string(event("tid")), name);
    return;
  }
  if (event("name") != "process_name") return;
  const std::size_t rank = name.rfind("rank ");
  if (rank == name.npos) return;
  const std::string_view before = name.substr(0, rank);
  const bool first =
      std::ranges::none_of(processes_, [](const auto& p) { return p.second.rank >= 0; });
  if (!first && before != case_) {
    throw error_in(path, "shows several cases", "write the timeline of one case");
  }
  case_ = before;
  const auto end = name.find(' ', rank + 5);
  processes_[number].rank = static_cast<int>(
      std::min<std::int64_t>(flat_whole(name.substr(rank + 5, end - rank - 5)), 1 << 24));
}

void MoesimTimeline::take_slice(const FlatObject& event, KernelNames& names,
                                const std::string& path) {
  const std::string_view category = event("cat");
  if (!has_times(event("ts"), event("dur"))) {
    if (category == "kernel" || category == "exchange") untimed_.add(event("name"));
    return;
  }
  ProfiledKernel kernel;
  kernel.start = profile_ticks(profile_moment(event("ts")), 0);
  kernel.length = profile_length(event("dur"));
  if (category == "step") steps_.emplace_back(kernel.start, kernel.end());
  if (category != "kernel" && category != "exchange") return;
  const auto place = processes_.find(flat_whole(event("pid")));
  if (place == processes_.end()) return;
  Process& process = place->second;
  const auto thread = process.streams.find(event("tid"));
  kernel.stream = process.builder.stream(
      thread == process.streams.end() ? event("tid") : std::string_view(thread->second), path);
  kernel.name = names.number(event("name"), path);
  const auto op = find_op_type(event.in("args", "op"));
  if (op) kernel.kind = kind_of_op(*op, event.in("args", "stage"));
  if (category == "exchange") {
    if (!is_exchange(kernel.kind)) kernel.kind = KernelKind::other_exchange;
    ExchangeFacts facts;
    const std::int64_t inside = flat_whole(event.in("args", "to_same_host_bytes"));
    const std::int64_t outside = flat_whole(event.in("args", "to_other_hosts_bytes"));
    facts.in_bytes = std::clamp<std::int64_t>(inside, 0, most_bytes) +
                     std::clamp<std::int64_t>(outside, 0, most_bytes);
    facts.ranks = static_cast<int>(
        std::clamp<std::int64_t>(flat_whole(event.in("args", "ranks")), 0, 1 << 24));
    const std::int64_t op_id = flat_whole(event.in("args", "op_id"));
    const std::string link = text_of_profile(flat_string(event.in("args", "link")));
    if (link.find('/') == link.npos) facts.link = link;  // it becomes part of a file's name
    facts.link_bytes =
        std::clamp<std::int64_t>(flat_whole(event.in("args", "link_bytes")), 0, most_bytes);
    facts.waiting = profile_length(event.in("args", "waiting_us"));
    if (op_id >= 0 && op_id < 1LL << 32) facts.sequence = (std::ssize(steps_) << 32) + op_id;
    kernel.exchange = process.builder.exchange(facts);
  }
  if (category == "kernel") {
    const std::string key = shape_key(event);
    if (const auto shape = shape_of(event, op)) kernel.shape = process.builder.shape(key, *shape);
  }
  process.builder.add(kernel, -1, -1);
}

void MoesimTimeline::finish(const std::string& path, Profile& profile) {
  const std::size_t before = profile.ranks.size();
  for (auto& [number, process] : processes_) {
    if (process.rank < 0 || process.builder.empty()) continue;
    process.builder.rank().rank = process.rank;
    process.builder.rank().steps = steps_;
    add_rank(process.builder.finish(0), path, profile);
  }
  untimed_.note(profile);
  profile.producer = "moesim";
  profile.one_clock = before == 0;
  if (profile.ranks.size() == before) throw error_in(path, "shows no rank");
}

}  // namespace moesim
