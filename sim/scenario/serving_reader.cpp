// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/serving_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/planner/iteration/precision.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/scenario.h"

namespace moesim {
namespace {

constexpr Range some_tokens{1, 1 << 24};
constexpr Range some_sequences{1, 1 << 20};

/// New tokens of a decode are its own and the drafts that it verifies.
SequenceStep read_sequences(const YamlMap& map, int drafts) {
  SequenceStep step;
  step.count = map.integer("sequences", some_sequences);
  const auto prompt = map.find("prompt");
  const auto cached = map.find("cached");
  const auto context = map.find("context");
  const auto tokens = map.find("tokens");
  if (prompt) {
    const std::int64_t all = prompt->integer(some_tokens);
    step.context = cached ? cached->integer({0, some_tokens.max}) : 0;
    step.tokens = all - step.context;
    if (context || tokens) {
      (context ? context : tokens)
          ->error(fmt::format("'{}' together with 'prompt'", (context ? context : tokens)->path()),
                  "a prefill has a prompt, and some of it may be cached; a decode or a chunk "
                  "has a context and tokens");
    }
    if (step.tokens < 1 && map.good({"prompt", "cached"})) {
      cached->error(fmt::format("'{}' is {} of a prompt of {}", cached->path(), step.context, all),
                    "one token of a prompt at least is computed");
    }
    return step;
  }
  if (cached) cached->error(fmt::format("'{}' without 'prompt'", cached->path()), "say context");
  step.context = map.integer("context", {0, some_tokens.max});
  step.tokens = tokens ? tokens->integer(some_tokens) : 1 + drafts;
  return step;
}

std::vector<SequenceStep> read_rank(const YamlValue& value, int drafts) {
  std::vector<SequenceStep> list;
  const auto items = value.is_list() ? value.list() : std::vector<YamlValue>{value};
  for (const YamlValue& item : items) list.push_back(read_sequences(item.map(), drafts));
  return list;
}

/// A mapping, a list of them, or a list of lists, one for each rank.
ServingBatch read_batch(const YamlValue& value, int drafts) {
  ServingBatch batch;
  const auto items = value.is_list() ? value.list() : std::vector<YamlValue>();
  if (value.is_list() && items.empty()) {
    value.error(fmt::format("'{}' is an empty list", value.path()),
                "{context: 4096, sequences: 128}");
  }
  const bool by_rank = !items.empty() && items.front().is_list();
  if (!by_rank) {
    batch.ranks.push_back(read_rank(value, drafts));
    return batch;
  }
  for (const YamlValue& item : items) batch.ranks.push_back(read_rank(item, drafts));
  return batch;
}

/// Requests make batches of their own: until then every rank decodes one sequence.
void read_batch_or_requests(const YamlMap& map, ServingSpec& serving) {
  if (!has_requests(map)) {
    for (const std::string& key : engine_run_keys()) {
      if (const auto value = map.find(key)) {
        value->error(fmt::format("'{}' is of runs with 'serving.requests'", value->path()),
                     map.find("batch") ? "'serving.batch' is one pass: leave one of the two out"
                                       : "requests: {count: 256, concurrency: 64, input: 1024, "
                                         "output: 256}");
      }
    }
    if (const auto batch = map.get("batch")) serving.batch = read_batch(*batch, serving.drafts);
    return;
  }
  if (const auto batch = map.find("batch")) {
    batch->error("'serving.batch' together with 'serving.requests'",
                 "a batch is one pass; requests make a run of an engine, which forms its batches");
  }
  serving.batch.ranks = {{SequenceStep{1, 1 + serving.drafts, 1, -1}}};
}

/// `graphs: false`, or true, or the sizes that were captured.
void read_graphs(const YamlMap& map, ServingSpec& serving) {
  const auto value = map.find("graphs");
  if (!value) return;
  if (!value->is_list()) {
    serving.graphs = value->boolean();
    return;
  }
  if (value->list().empty()) {
    value->error(fmt::format("'{}' is an empty list", value->path()),
                 "true: graphs of any size; false: none; or sizes such as [1, 2, 4, 8, 16]");
  }
  for (const YamlValue& item : value->list()) serving.pad.push_back(item.integer(some_tokens));
  if (!std::ranges::is_sorted(serving.pad) && map.good({"graphs"})) {
    value->error(fmt::format("'{}' does not ascend", value->path()), "[1, 2, 4, 8, 16]");
  }
}

void refuse_training_keys(const YamlMap& scenario) {
  for (const char* key : {"batch", "pipeline", "recompute", "zero", "precision", "overlap",
                          "optimizer", "update_bytes", "collective", "microbatches",
                          "gradient_bytes", "optimizer_bytes", "paged_stash", "offload"}) {
    const auto value = scenario.find(key);
    if (!value) continue;
    value->error(fmt::format("'{}' is of training, and this is a pass of serving", key),
                 "serving.batch, serving.precision and serving.overlap say what a pass does");
  }
}

/// Attention data parallelism takes the GPUs that tp and cp leave; experts lie over ep and etp.
void check_sizes(const YamlMap& scenario, IterationSpec& spec) {
  ParallelSizes& sizes = spec.parallel;
  const auto parallel = scenario.find("parallel");
  if (!parallel || !scenario.good({"parallel"})) return;
  if (sizes.pp > 1 || sizes.vpp > 1) {
    parallel->error(fmt::format("'serving' with pp = {}", sizes.pp),
                    "pipelines of serving engines are not modelled: pp 1");
  }
  if (sizes.cp > 1) {
    parallel->error(fmt::format("'serving' with cp = {}", sizes.cp),
                    "serving.dcp shares the keys of a sequence within a tensor group: cp 1");
  }
  // Without expert parallelism the tensor group shares the experts, too.
  if (!sizes.etp) sizes.etp = sizes.ep > 1 ? 1 : sizes.tp;
  if (spec.serving->attention_ranks > 0 && *sizes.etp > 1) {
    parallel->error(fmt::format("'serving.attention_ranks' with etp = {}", *sizes.etp),
                    "GPUs that only compute experts hold whole ones: etp 1");
  }
}

}  // namespace

/// A format, or {format, parts}.
void read_served_precision(const YamlValue& value, ServingSpec& serving) {
  serving.states_weights = true;
  if (!value.is_map()) {
    serving.weights = type_of_precision(value.choice(serving_precision_names));
    return;
  }
  const YamlMap map = value.map();
  serving.weights = type_of_precision(map.choice("format", serving_precision_names));
  const auto parts = map.find("parts");
  if (!parts) return;
  serving.quantized = read_gemm_parts(*parts);
  if (is_stored_only(serving.weights) || !is_quantized(serving.weights)) {
    parts->error(fmt::format("'serving.precision.parts' with {}", name_of(serving.weights)),
                 "parts are for fp8 and nvfp4; other formats of fewer bits are in routed experts");
  }
  if (!serving.quantized->has(GemmPart::experts)) {
    parts->error("'serving.precision.parts' without experts", "name experts, too");
  }
  if (serving.quantized->has_any({GemmPart::head, GemmPart::scores})) {
    parts->error("'serving.precision.parts' with head or scores",
                 "engines leave logits as they are; serving.kv says in which type keys are");
  }
}

bool is_serving(const YamlMap& scenario) { return scenario.find("serving").has_value(); }

void read_serving(const YamlMap& scenario, IterationSpec& spec) {
  const auto value = scenario.find("serving");
  const YamlMap map = value->map();
  ServingSpec& serving = spec.serving.emplace();
  spec.places.batch = value->line();
  serving.drafts = static_cast<int>(map.integer("drafts", {0, 15}, 0));
  serving.accepted = map.number("accepted", {0, 15}, 0);
  if (serving.accepted > serving.drafts && map.good({"drafts", "accepted"})) {
    map.find("accepted")
        ->error(
            fmt::format("'serving.accepted' is {} of {} drafts", serving.accepted, serving.drafts),
            "a sequence keeps as many drafts as there are, at most");
  }
  read_batch_or_requests(map, serving);
  if (const auto precision = map.find("precision")) read_served_precision(*precision, serving);
  serving.kv = map.choice("kv", kv_type_names, 0) == 1 ? DataType::fp8 : DataType::bf16;
  read_graphs(map, serving);
  serving.overlap = static_cast<ServingOverlap>(map.choice("overlap", serving_overlap_names, 0));
  if (const auto from = map.find("overlap_from")) {
    serving.overlap_from = read_overlap_from(from->map());
    if (serving.parts_of_overlap() == 1 && map.good({"overlap"})) {
      from->error("'serving.overlap_from' has no effect: no pass is split into batches",
                  "overlap: two-batch, or take it away");
    }
  }
  serving.kv_fraction = map.number("memory_fraction", {0.05, 1}, serving.kv_fraction);
  serving.attention_ranks = static_cast<int>(map.integer("attention_ranks", {1, 1 << 20}, 0));
  serving.dcp = static_cast<int>(map.integer("dcp", {1, 1024}, 1));
  spec.zero = 0;
  refuse_training_keys(scenario);
  check_sizes(scenario, spec);
}

void serve_checkpoint(Scenario& s) {
  if (!s.serves() || s.iteration->serving->states_weights || s.model.empty()) return;
  try {
    const std::string path = data_file("models", s.model);
    const MoeModel model = read_moe_model(path, s.overrides_of("model", s.model));
    s.iteration->serving->weights = model.checkpoint.value_or(DataType::bf16);
  } catch (const Error&) {  // said where the model is opened
  }
}

}  // namespace moesim
