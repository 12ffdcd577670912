// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/paper_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/base/read_number.h"
#include "sim/run/simulate.h"
#include "sim/run/workers.h"
#include "sim/scenario/scenario_text.h"
#include "sim/trace/memory_step.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

constexpr std::int64_t widest = 1 << 16;  // hidden of a token of an even exchange

int ranks_of(const PaperSetting& setting) {
  const auto found = std::ranges::find(setting.flags, "ep", &Override::path);
  const int ranks = found == setting.flags.end() ? 0 : parse_integer<int>(found->value).value_or(0);
  if (ranks < 1) throw Error(fmt::format("setting '{}': 'all_to_all' needs 'ep'", setting.name));
  return ranks;
}

/// The name of a folder.
std::string name_of(const PaperSetting& setting) {
  const int ranks = ranks_of(setting);
  return fmt::format("even-{}-{}", ranks, even_exchange(*setting.all_to_all, ranks).tokens);
}

void write_even(const std::string& folder, int ranks, std::int64_t tokens) {
  TraceInfo info{"even", "tiny-moe", ranks, 1, {0}, Phase::synthetic, "{}", false};
  StepArrays arrays;
  arrays.ids = IdArray(ranks, tokens * ranks);
  for (std::int64_t t = 0; t < tokens * ranks; ++t) arrays.ids.set(t, static_cast<int>(t % ranks));
  arrays.sequence_lengths.assign(static_cast<std::size_t>(ranks),
                                 static_cast<std::int32_t>(tokens));
  auto writer = TraceWriter::create(folder, info, TraceWriter::Publish::at_end);
  writer.append_step(*make_step(info, std::move(arrays)));
  writer.finish();
}

void write_trace(const std::string& folder, const PaperSetting& setting) {
  const int ranks = ranks_of(setting);
  write_even(folder, ranks, even_exchange(*setting.all_to_all, ranks).tokens);
}

}  // namespace

EvenExchange even_exchange(Bytes bytes, int ranks) {
  const double part = static_cast<double>(bytes.value) / ranks / 4;  // values to one rank
  const auto each = static_cast<std::int64_t>(std::max(1.0, std::ceil(part / widest)));
  const auto hidden = static_cast<std::int64_t>(std::round(part / static_cast<double>(each)));
  return {each * ranks, std::max<std::int64_t>(1, hidden)};
}

PaperTraces::PaperTraces(const std::vector<PaperTable>& tables, int workers) {
  std::set<std::string> known;
  std::vector<WorkerJob<int>> jobs;
  for (const PaperTable& table : tables) {
    for (const PaperSetting& setting : table.settings) {
      if (!setting.all_to_all) continue;
      const std::string name = name_of(setting);
      if (!known.insert(name).second) continue;
      jobs.push_back(
          {"trace of " + table.name, [path = folder_.path() + "/" + name, &setting](auto&) {
             write_trace(path, setting);
             return 0;
           }});
    }
  }
  run_jobs(jobs, workers);
}

std::vector<Override> PaperTraces::flags(const PaperSetting& setting) const {
  std::vector<Override> flags = setting.flags;
  const auto add = [&](const std::string& key, const std::string& value) {
    flags.push_back({key, value, fmt::format("{}: {}", key, value)});
  };
  if (!setting.all_to_all) return flags;
  add("trace", folder_.path() + "/" + name_of(setting));
  const int ranks = ranks_of(setting);
  const EvenExchange even = even_exchange(*setting.all_to_all, ranks);
  add("model", "tiny-moe");
  add("layers", "recorded");
  add("tokens_per_rank", std::to_string(even.tokens));
  add("attention", "false");
  add("set", fmt::format("model.experts={}", ranks));
  add("set", "model.top_k=1");
  add("set", fmt::format("model.hidden={}", even.hidden));
  return flags;
}

Scenario scenario_of(const PaperSetting& setting, std::vector<Override> flags,
                     const PaperVariant& variant) {
  flags.insert(flags.end(), variant.flags.begin(), variant.flags.end());
  flags.push_back({"policy", variant.policy, "policy: " + variant.policy});
  flags.push_back({"memory", "ignore", "memory: ignore"});
  return read_scenario(setting.scenario, flags);
}

std::string hash_of_inputs(const Scenario& scenario, const Inputs& inputs) {
  std::string all = inputs.trace_file().hash + inputs.model_file.hash;
  for (const InputFile& file : inputs.system_files) all += file.hash;
  for (const InputFile& file : inputs.transport_files) all += file.hash;
  all += inputs.software_file.hash;
  for (const ClusterInput& cluster : inputs.clusters) {
    all += cluster.file.hash;
    for (const InputFile& file : cluster.gpu_files) all += file.hash;
    all += fmt::format(" {} {} {}", cluster.ep, cluster.batches.tokens_per_rank,
                       cluster.batches.batches.size());
  }
  Scenario without_files = scenario;  // their paths differ between machines
  without_files.topologies.clear();
  without_files.model.clear();
  without_files.trace.clear();
  without_files.policies.clear();
  return hash_of(all + scenario_line(without_files));
}

IterationFigures iteration_figures(const Scenario& scenario, const Inputs& inputs) {
  ComparisonOptions here;
  here.workers = 0;
  return *simulate(scenario, inputs, here).cases[0].metrics.iteration;
}

}  // namespace moesim
