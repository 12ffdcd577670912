// SPDX-License-Identifier: Apache-2.0
// Parallelism and batch of Megatron-LM.
#include <fmt/format.h>

#include <numeric>

#include "sim/base/counted.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

constexpr auto tp_name = "tensor-model-parallel-size";
constexpr auto pp_name = "pipeline-model-parallel-size";
constexpr auto cp_name = "context-parallel-size";
constexpr auto ep_name = "expert-model-parallel-size";
constexpr auto etp_name = "expert-tensor-parallel-size";

struct Degrees {
  std::int64_t tp, pp, cp, ep, etp;
};

Degrees degrees_of(const LaunchFile& launch) {
  Degrees d{count_of(launch, tp_name, 1), count_of(launch, pp_name, 1),
            count_of(launch, cp_name, 1), count_of(launch, ep_name, 1), 0};
  d.etp = count_of(launch, etp_name, d.tp);
  return d;
}

/// Throws at the last of the flags that the launch has.
void require_size(const LaunchFile& launch, bool holds, std::initializer_list<const char*> flags,
                  const std::string& message, const std::string& hint) {
  if (holds) return;
  const NamedArgument* at = nullptr;
  for (const char* flag : flags) {
    const NamedArgument* found = argument_of(launch, flag);
    if (found != nullptr) at = found;
  }
  if (at != nullptr) throw launch.arguments.error(*at, message, hint);
  throw Error(launch.arguments.file() + ": " + message, hint);
}

void take_virtual_stages(const LaunchFile& launch, const Degrees& d, Launched& launched) {
  const std::string layout = word_of(launch, "pipeline-model-parallel-layout", "");
  if (layout.find('t') != layout.npos && layout.find('<') == layout.npos) {
    launched.set("parallel.layout", fmt::format("'{}'", layout));
    return;
  }
  std::int64_t vpp = count_of(
      launch, "num-virtual-stages-per-pipeline-rank virtual-pipeline-model-parallel-size", 1);
  const std::int64_t layers = count_of(launch, "num-layers", 0);
  const auto per_chunk = count_of(launch, "num-layers-per-virtual-pipeline-stage", 0);
  if (per_chunk > 0 && vpp == 1) {
    const NamedArgument& at = *argument_of(launch, "num-layers-per-virtual-pipeline-stage");
    // As layers, where stages have fewer of them for it.
    const std::int64_t counted_too = is_on(launch, "account-for-embedding-in-pipeline-split") +
                                     is_on(launch, "account-for-loss-in-pipeline-split");
    const std::int64_t shared = layers + counted_too;
    if (layers == 0 || shared % (per_chunk * d.pp) != 0) {
      throw launch.arguments.error(
          at,
          layers == 0 ? "--num-layers-per-virtual-pipeline-stage without --num-layers"
                      : fmt::format("{} layers are not {} stages of chunks of {}", shared, d.pp,
                                    counted(per_chunk, "layer")),
          "--num-layers says how many there are to share");
    }
    vpp = shared / (per_chunk * d.pp);
  }
  if (vpp > 1 && d.pp > 1) launched.set("parallel.vpp", std::to_string(vpp));
}

void take_batch(const LaunchFile& launch, const Degrees& d, const Launched& launched,
                Launched& into) {
  constexpr auto lengths = "seq-length encoder-seq-length sequence-length";
  const std::int64_t micro = count_of(launch, "micro-batch-size", 1);
  const std::int64_t sequence = count_of(launch, lengths, 0);
  std::int64_t global = count_of(launch, "global-batch-size", 0);
  const std::int64_t replicas = launched.gpus / (d.tp * d.pp * d.cp);
  std::string said;
  if (global == 0 && replicas > 0) {
    global = micro * replicas;
    said = "assumed: a microbatch for each replica, Megatron-LM's default";
  }
  require_size(launch, global > 0, {}, "nothing says the global batch", "--global-batch-size N");
  require_size(launch, sequence > 0, {}, "nothing says how long a sequence is", "--seq-length N");
  require_size(launch, replicas == 0 || global % (micro * replicas) == 0,
               {"micro-batch-size", "global-batch-size"},
               fmt::format("the global batch {} is not a multiple of micro batch {} x {}", global,
                           micro, counted(replicas, "replica")),
               fmt::format("replicas are GPUs / (tp x pp x cp) = {} / {}", launched.gpus,
                           d.tp * d.pp * d.cp));
  into.set("batch.global", std::to_string(global), said);
  into.set("batch.micro", std::to_string(micro));
  into.set("batch.sequence", std::to_string(sequence));
}

}  // namespace

void read_megatron_sizes(const LaunchFile& launch, Launched& launched) {
  const Degrees d = degrees_of(launch);
  launched.gpus = gpus_of_launcher(launch, launched);
  const auto divides = [&](std::int64_t product) {
    return launched.gpus == 0 || launched.gpus % product == 0;
  };
  require_size(launch, divides(d.tp * d.pp * d.cp), {tp_name, pp_name, cp_name},
               fmt::format("tp x pp x cp = {} x {} x {} do not divide {}", d.tp, d.pp, d.cp,
                           counted(launched.gpus, "GPU")),
               "is the number of nodes or of GPUs per node another?");
  require_size(launch, divides(d.etp * d.ep * d.pp), {ep_name, etp_name},
               fmt::format("etp x ep x pp = {} x {} x {} do not divide {}", d.etp, d.ep, d.pp,
                           counted(launched.gpus, "GPU")),
               "--expert-tensor-parallel-size is tp unless you say it");
  const std::int64_t experts = count_of(launch, "num-experts num-moe-experts", 0, 0);
  require_size(launch, experts % d.ep == 0, {"num-experts", ep_name},
               fmt::format("{} experts are not divided by ep = {}", experts, d.ep),
               "ep divides the experts");
  launched.gpus_divisor = static_cast<int>(std::lcm(d.tp * d.pp * d.cp, d.etp * d.ep * d.pp));
  launched.set("parallel.tp", std::to_string(d.tp));
  if (d.cp > 1) launched.set("parallel.cp", std::to_string(d.cp));
  launched.set("parallel.pp", std::to_string(d.pp));
  take_virtual_stages(launch, d, launched);
  launched.set("parallel.ep", std::to_string(d.ep));
  if (d.etp != d.tp) launched.set("parallel.etp", std::to_string(d.etp));
  if (is_on(launch, "use-tp-pp-dp-mapping")) launched.set("parallel.order", "tp-cp-ep-pp-dp");
  const std::int64_t instances = count_of(launch, "num-distributed-optimizer-instances", 1);
  if (instances > 1) launched.set("parallel.dp_replicate", std::to_string(instances));
  take_batch(launch, d, launched, launched);
  if (d.tp > 1 && !is_on(launch, "sequence-parallel") && !launch.yaml) {
    launched.assume("--sequence-parallel: tensor groups here always have it, the launch has not");
  }
}

}  // namespace moesim
