// SPDX-License-Identifier: Apache-2.0
#include "sim/import/importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/most.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"

namespace moesim {
namespace {

void check_options(const ImportOptions& options) {
  if (options.inputs.empty()) throw Error("there is nothing to import");
  if (options.experts < 0 || options.experts > max_experts) {
    throw Error(fmt::format("experts is {}; it is from 1 to {}", options.experts, max_experts));
  }
  if (options.top_k < 0) throw Error(fmt::format("top-k is {}", options.top_k));
  if (options.experts > 0 && options.top_k > options.experts) {
    throw Error(fmt::format("top-k {} exceeds the {} experts", options.top_k, options.experts));
  }
  if (options.micro_batch < 0) {
    throw Error(fmt::format("--micro-batch is {}", options.micro_batch),
                "the sequences of a microbatch, from 1");
  }
  if (options.step_tokens < 0) {
    throw Error(fmt::format("--step-tokens is {}", options.step_tokens));
  }
}

/// What decides how an import goes: one that stopped continues only if all of it is the same.
std::string resume_key(const std::string& kind, const ImportOptions& o,
                       const std::string& input_hashes) {
  return fmt::format("{} {} {} [{}] [{}] {} {} {} {} {} [{}] '{}' '{}' '{}' {} {} {}\n{}\n", kind,
                     o.experts, o.top_k, fmt::join(o.layers, ","), fmt::join(o.moe_layers, ","),
                     o.model_layers, o.mtp_layers, o.micro_batch,
                     o.passes ? static_cast<int>(*o.passes) : -1, o.step_tokens,
                     fmt::join(o.map, ","), o.ids, o.lengths, o.weights, o.order, o.numbering,
                     o.weight_scale, input_hashes);
}

const Importer& importer_of(const std::string& kind) {
  std::vector<std::string> kinds;
  for (const Importer& importer : importers()) {
    if (importer.kind == kind) return importer;
    kinds.emplace_back(importer.kind);
  }
  throw Error(fmt::format("'{}' is not a format that can be imported", kind),
              did_you_mean(kind, kinds));
}

}  // namespace

const std::vector<Importer>& importers() {
  static const std::vector<Importer> table = {
      {"sglang-recorder", "expert distribution recorder, per_token: a .pt per rank", "model",
       import_sglang_recorder},
      {"sglang-routes", "responses with routed_experts, JSON or JSON lines", "model",
       import_sglang_routes},
      {"vllm-routes", "responses with routed_experts, JSON or JSON lines", "model",
       import_vllm_routes},
      {"trtllm", "folder of meta_info.json, rank<r>_raw.safetensors", "nothing", import_trtllm},
      {"trtllm-routes", ".npy or .pt with routed_experts, one per request", "model",
       import_trtllm_routes},
      {"megatron-trace", "router_trace_rank<r>.jsonl, one per rank", "model",
       import_megatron_trace},
      {"megatron-routes", "responses with moe_topk_indices", "model", import_megatron_routes},
      {"trace-v1", "folders of manifest.json, tensors/*.pt", "nothing", import_trace_v1},
      {"router-lists", ".pt per step: a tensor [token][choice] per layer", "model",
       import_router_lists},
      {"verl", ".pt with routed_experts, attention_mask", "model", import_routed_batches},
      {"nemo-rl", ".pt with routed_experts [token][layer][choice]", "model", import_routed_batches},
      {"hf-logits", ".pt with router_logits, attention_mask", "model", import_hf_logits},
      {"core12345", "JSON per request of a selection trace", "experts", import_core12345},
      {"flame", "a checkpoint: layer_<number>.parquet or <layer>/*.pt", "experts", import_flame},
      {"esft", "expert_weights_<layer>.txt[.gz]", "experts, top-k", import_esft},
      {"gpt-oss", "JSON of expert fingerprinting, plain or gzip", "experts", import_gpt_oss},
      {"npz", "one .npz: ids, and if there are any lengths, weights", "experts, layers",
       import_npz},
      {"npy", "the same as several .npy", "experts, layers", import_npz},
      {"table", "JSON lines, CSV or log: a row per choice, token or count", "experts",
       import_table},
      {"sglang-counts", "expert distribution recorder, stat or per_pass", "top-k",
       import_sglang_counts},
      {"trtllm-counts", "folder of meta_info.json, rank<r>.safetensors", "nothing",
       import_trtllm_counts},
      {"moe-infinity", ".npy of counts [sequence][layer][expert]", "model", import_moe_infinity},
      {"harmoeny", "folder of data.json, <rank>/moe_layer-<i>.csv", "model", import_harmoeny},
      {"ultraep", "folder of <id>.manifest.json, <id>.chunk<n>.npz", "top-k", import_ultraep},
      {"counts", "counts [step][layer][source][expert]: .npy, JSON, CSV", "experts, top-k, layers",
       import_counts},
  };
  return table;
}

Imported import_trace(const std::string& kind, const ImportOptions& options,
                      const TraceProgress& progress) {
  const Importer& importer = importer_of(kind);
  check_options(options);
  const std::string hashes = input_hashes(options.inputs);
  auto writer = TraceWriter::resume(options.output, resume_key(kind, options, hashes));
  try {
    ImportSink sink(options, writer, progress);
    importer.run(sink);
    return sink.finish(kind, hashes);
  } catch (const Error&) {
    writer.abandon();  // it would end so again
    throw;
  }
}

}  // namespace moesim
