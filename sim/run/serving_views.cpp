// SPDX-License-Identifier: Apache-2.0
#include "sim/run/serving_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/model/kv_cache.h"
#include "sim/planner/iteration/serving_batches.h"
#include "sim/run/backends.h"
#include "sim/run/domains_text.h"
#include "sim/run/result_file.h"
#include "sim/run/software_text.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/policy_inputs.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {
namespace {

std::string sequences_text(const SequenceStep& each) {
  const std::string text =
      fmt::format("{} of {}", counted(each.count, "sequence"), counted(each.tokens, "new token"));
  return each.context == 0 ? text : fmt::format("{} after {}", text, each.context);
}

/// "128 sequences of 1 new token after 4096 on each of 8 ranks"; if ranks differ, the least, the
/// most and the sum of their new tokens.
std::string batch_text(const ServingSpec& serving, int ranks) {
  if (serving.batch.ranks.size() > 1) {
    std::int64_t least = tokens_of(serving.of_rank(0)), most = least;
    for (int r = 1; r < ranks; ++r) {
      const std::int64_t tokens = tokens_of(serving.of_rank(r));
      least = std::min(least, tokens);
      most = std::max(most, tokens);
    }
    return fmt::format("{} to {} new tokens per rank, {} in all", least, most,
                       tokens_of(serving, ranks));
  }
  std::string text;
  for (const SequenceStep& each : serving.of_rank(0)) {
    text += (text.empty() ? "" : " and ") + sequences_text(each);
  }
  return text + fmt::format(" on each of {} ranks", ranks);
}

/// The types of weights, and which parts keep a larger one though others usually do not.
std::string weights_text(const ServingSpec& serving, const MoeModel& model) {
  const bool experts = is_stored_only(serving.weights);
  std::string text = "weights ";
  text += experts ? name_of(model.other_weights()) : precision_of_type(serving.weights);
  if (experts) text += ", experts " + precision_of_type(serving.weights);
  const GemmTypes types = GemmTypes::served(serving.weights, model, serving.quantized);
  std::vector<std::string> others;
  for (std::size_t part = 0; part < gemm_part_names().size(); ++part) {
    const auto of = static_cast<GemmPart>(part);
    if (usually_quantized.has(of) && !types.parts.has(of))
      others.push_back(gemm_part_names()[part]);
  }
  if (!others.empty()) {
    text += fmt::format(", {} {}", fmt::join(others, ", "), name_of(types.others));
  }
  return text + (serving.states_weights || !model.checkpoint ? "" : " (as its checkpoint)");
}

std::string graph_text(const ServingSpec& serving, bool one_pass) {
  if (!serving.graphs) return "no CUDA graphs";
  if (!one_pass || serving.in_graph()) return "CUDA graphs";
  return fmt::format("no CUDA graph (none is captured for more than {})",
                     counted(serving.pad.back(), "token"));
}

/// How parts of the batch overlap, and why they do not in this pass.
std::string overlap_text(const ServingSpec& serving, bool one_pass) {
  std::string name = serving_overlap_names[static_cast<std::size_t>(serving.overlap)];
  const OverlapFrom& from = serving.overlap_from;
  if (!one_pass && serving.parts_of_overlap() > 1 && from != OverlapFrom{}) {
    name += fmt::format(" (from {} of every rank on, {} with prompts)",
                        counted(from.decode, "token"), from.prompts);
  }
  if (!one_pass || serving.turns() == serving.parts_of_overlap()) return name;
  return fmt::format("{} (not in this pass: {})", name,
                     serving.most_sequences() < 2
                         ? "no rank has two sequences"
                         : fmt::format("a rank has {}, fewer than overlap_from",
                                       counted(serving.least_tokens(), "token")));
}

std::string engine_text(const IterationSpec& spec, const MoeModel& model, bool one_pass) {
  const ServingSpec& serving = *spec.serving;
  std::string text =
      fmt::format("{}, KV {}, {}, overlap {}", weights_text(serving, model), name_of(serving.kv),
                  graph_text(serving, one_pass), overlap_text(serving, one_pass));
  if (serving.dcp > 1)
    text += fmt::format(", the KV cache of a sequence divided over {} GPUs", serving.dcp);
  if (serving.drafts > 0) {
    text +=
        fmt::format(", {}, {} kept on average", counted(serving.drafts, "draft"), serving.accepted);
    if (drafting_layers(spec, model) == 0) {
      text += ", drafting left out (the model has no layer of multi-token prediction)";
    }
  }
  return text;
}

std::string experts_text(const Grid& grid, const ServingSpec& serving) {
  const int attending =
      serving.attending(grid.size(ParallelAxis::dp)) * grid.size(ParallelAxis::tp);
  if (serving.attention_ranks > 0) {
    return fmt::format(", experts: on the other {}", counted(grid.gpus() - attending, "GPU"));
  }
  return fmt::format(", experts: etp {} ep {}", grid.size(ParallelAxis::etp),
                     grid.size(ParallelAxis::ep));
}

/// Which trace chooses the experts, and how often its steps are played.
std::string tokens_text(const Scenario& scenario, const Inputs& inputs,
                        const IterationShape& shape) {
  if (!scenario.plays_choices()) {
    return inputs.model.experts == 0 ? "# no trace and no policy: no layer has experts\n"
                                     : "# no trace: all experts are chosen alike\n";
  }
  const TraceInfo& info = inputs.trace.info();
  const int repeat = make_serving_batches(inputs.trace, shape, *scenario.iteration->serving).repeat;
  std::string text = fmt::format(
      "# trace {}: {}, {} recorded layers{}{}\n", info.name,
      counted(inputs.trace.total_tokens(), "token"), info.layers.size(),
      info.layers == inputs.model.moe_layers
          ? ""
          : fmt::format(", in turn for the model's {}", inputs.model.moe_layers.size()),
      repeat > 1
          ? fmt::format("; it is short: each recorded token is played up to {} times", repeat)
          : "");
  const AskedSteps asked = asked_iterations(scenario);
  if (const int steps = inputs.trace.step_count(); asked.first + asked.count > steps) {
    text += fmt::format("# step {} plays step {} of the trace again, which has {}\n",
                        asked.first + asked.count - 1, (asked.first + asked.count - 1) % steps,
                        counted(steps, "step"));
  }
  const bool recorded_decode = info.phase == Phase::decode || info.phase == Phase::mixed;
  if (any_decodes(scenario.iteration->serving->batch) && !recorded_decode) {
    text += "# the trace has no decode: decoding sequences take tokens of recorded ones\n";
  }
  return text;
}

/// The KV cache of the first rank's batch.
std::string held_text(const MoeModel& model, const IterationSpec& spec) {
  Bytes held;
  for (const SequenceStep& each : spec.serving->of_rank(0)) {
    held +=
        cache_of_sequence(model, each.context + each.tokens, cache_shard(spec, model)) * each.count;
  }
  return fmt::format(", {} for the batch of the first rank", to_string(held));
}

std::int64_t longest_sequence(const ServingBatch& batch) {
  std::int64_t longest = 0;
  for (const auto& list : batch.ranks) {
    for (const SequenceStep& each : list) longest = std::max(longest, each.context + each.tokens);
  }
  return longest;
}

}  // namespace

std::string longest_text(const MoeModel& model, std::int64_t longest, bool serves) {
  if (model.longest == 0 || longest <= model.longest) return "";
  return fmt::format("# sequences of up to {} tokens: more than the {} of the model's config{}\n",
                     longest, model.longest,
                     serves ? "; engines refuse them unless told otherwise" : "");
}

ServingFigures serving_figures(const Planner& planner, const MoeModel& model) {
  const IterationSpec& spec = planner.spec().spec;
  const ServingSpec& serving = *spec.serving;
  ServingFigures figures;
  figures.decodes = all_decode(serving.batch);
  figures.sequences = sequences_of(serving, planner.shape().grid.size(ParallelAxis::dp));
  figures.tokens_per_sequence = 1 + serving.accepted;
  if (model.missing_of_whole().empty()) {
    figures.cache_per_token = cache_per_token(model, cache_shard(spec, model));
  }
  return figures;
}

std::int64_t output_tokens(const Planner& planner) {
  const ServingSpec& serving = *planner.spec().spec.serving;
  const int ranks = planner.shape().grid.size(ParallelAxis::dp);
  if (!all_decode(serving.batch)) return tokens_of(serving, ranks);
  return std::llround(static_cast<double>(sequences_of(serving, ranks)) * (1 + serving.accepted));
}

std::int64_t free_cache_tokens(const Planner& planner, const StepMemory& memory,
                               const GpuModels& gpus, Bytes per_token) {
  if (per_token.value == 0) return 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (GpuId gpu(0); gpu.index() < gpus.size(); ++gpu.value) {
    if (!planner.attends(gpu)) continue;
    const std::int64_t usable = std::llround(static_cast<double>(gpus[gpu.index()]->memory.value) *
                                             planner.spec().spec.serving->kv_fraction);
    least = std::min(least, usable - memory.peaks[gpu.index()].use.total().value);
  }
  return std::max<std::int64_t>(0, least) / per_token.value;
}

std::string serving_header(const Scenario& scenario, const Inputs& inputs,
                           const std::string& version) {
  const IterationSpec& spec = *scenario.iteration;
  const ServingSpec& serving = *spec.serving;
  const MoeModel& model = inputs.model;
  std::string text = fmt::format(
      "# moesim {}\n# model {}: {}, {}; {}\n", version, model.name, counted(model.layers, "layer"),
      model.experts == 0 ? "dense" : fmt::format("{} experts, top-{}", model.experts, model.top_k),
      engine_text(spec, model, !scenario.engine_run));
  for (const ClusterInput& c : inputs.clusters) {
    const IterationShape shape = shape_of(spec, c.topology.gpu_count(), model);
    const auto size = [&](ParallelAxis axis) { return shape.grid.size(axis); };
    const int ranks = serving.attending(size(ParallelAxis::dp));
    if (&c == &inputs.clusters.front()) text += tokens_text(scenario, inputs, shape);
    text += fmt::format(
        "# {}: {} on {}, attention: tp {} cp {} dp {}{}\n{}", c.topology.name(),
        counted(c.topology.gpu_count(), "GPU"), counted(c.topology.host_count(), "host"),
        size(ParallelAxis::tp), size(ParallelAxis::cp), ranks,
        model.experts == 0 ? "" : experts_text(shape.grid, serving),
        scenario.engine_run ? "" : fmt::format("#   {}\n", batch_text(serving, ranks)));
    text += domains_text(c.topology, shape.grid.groups(ParallelAxis::etp_ep));
  }
  if (model.missing_of_whole().empty()) {
    text += fmt::format("# KV: {} per token on a GPU{}\n",
                        to_string(cache_per_token(model, cache_shard(spec, model))),
                        scenario.engine_run ? "" : held_text(model, spec));
  } else {
    text +=
        fmt::format("# '{}' describes only its experts ({}): dense blocks and KV are left out\n",
                    model.name, model.missing_of_whole());
  }
  if (!scenario.engine_run) text += longest_text(model, longest_sequence(serving.batch), true);
  text += own_text(scenario) + graphs_text(scenario, inputs);
  text += software_text(scenario, inputs);
  text += transport_text(inputs);
  const bool takes_in =
      scenario.engine_run && scenario.engine_run->engine.options.intake > Seconds(0);
  text += fmt::format("# not modelled: {}sampling on the CPU, network to the client\n",
                      takes_in ? "" : "tokenizer, ");
  text += fmt::format("# simulated{}; {}\n",
                      scenario.fidelities.size() == 1
                          ? " at " + backend_name(scenario.fidelities[0], scenario.p2p_order)
                          : "",
                      scenario.engine_run ? "times of requests, rates of generated tokens"
                                          : "times of one forward pass");
  return text;
}

}  // namespace moesim
