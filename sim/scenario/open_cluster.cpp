// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/open_cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "sim/base/data_files.h"
#include "sim/base/units.h"
#include "sim/planner/iteration/spec.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/software_inputs.h"

namespace moesim {
namespace {

std::string family_of(const std::string& name) { return name.substr(0, name.find('-')); }

}  // namespace

std::string data_sheet_of(const std::string& gpu) {
  for (const std::string& shipped : data_names("models/gpu")) {
    const bool fitted = shipped.ends_with("-measured") || shipped.ends_with("-training");
    if (!fitted && family_of(shipped) == family_of(gpu)) return shipped;
  }
  return "";
}

std::vector<Diagnostic> doubled_figures(const std::string& file, const GpuModel& gpu,
                                        const GpuModel& sheet) {
  std::vector<Diagnostic> warnings;
  const auto check = [&](const std::string& key, auto is, auto by_sheet, const char* why) {
    const double times = is.value / by_sheet.value;
    if (times < 1.9 || times > 2.1) return;
    warnings.push_back({Severity::warning, file, 0, 0,
                        fmt::format("'{}' is {}: the data sheet of {} has {}", key, to_string(is),
                                    sheet.name, to_string(by_sheet)),
                        "", why});
  };
  check("memory_bandwidth", gpu.memory_bandwidth, sheet.memory_bandwidth, "");
  for (const auto& [type, rate] : gpu.peak) {
    const auto known = sheet.peak.find(type);
    if (known == sheet.peak.end()) continue;
    check(fmt::format("peak.{}", name_of(type)), rate, known->second,
          "dense rates are meant; those with sparsity are twice as high");
  }
  return warnings;
}

std::string changed_file(const std::string& path, const std::vector<Override>& overrides) {
  std::string key = path;
  for (const Override& o : overrides) key += fmt::format("\n{}={}", o.path, o.value);
  return key;
}

InputFile input_file(const std::string& name, const std::string& path,
                     const std::vector<Override>& overrides, InputCache& cache) {
  std::string content = cache.files.get(path, [&] { return read_file(path); });
  for (const Override& o : overrides) content += fmt::format("\n{}={}", o.path, o.value);
  return {name, hash_of(content)};
}

InputFile whole_input(InputFile file, const std::vector<std::string>& named, InputCache& cache) {
  for (const std::string& path : named) {
    file.hash = hash_of(file.hash + input_file(path, path, {}, cache).hash);
  }
  return file;
}

std::string find_file(const std::string& key, const std::string& kind, const std::string& name) {
  try {
    return data_file(kind, name);
  } catch (const Error& e) {
    Diagnostic d = e.diagnostics().front();
    d.message = fmt::format("{}: {}", key, d.message);
    throw Error({d});
  }
}

namespace {

/// A warning about all GPUs that lack it.
void warn_of_mxfp8(const ClusterInput& cluster, const IterationSpec& spec,
                   std::vector<Diagnostic>& warnings) {
  const std::vector<std::string> lacking = gpus_without_mxfp8(cluster, spec);
  if (lacking.empty()) return;
  const char* others =
      spec.serving ? "mxfp4, as such GPUs multiply (Marlin), or fp8" : "fp8 or fp8-blockwise";
  const int line = spec.places.precision;
  warnings.push_back({Severity::warning, line > 0 ? spec.places.file : "", line, 0,
                      fmt::format("'{}' {} not multiply mxfp8: computed as fp8",
                                  fmt::join(lacking, "', '"), lacking.size() == 1 ? "does" : "do"),
                      "", fmt::format("{}; or a GPU with peak.fp4, which has both", others)});
}

std::string gpu_file(const std::string& name, const ClusterInput& cluster) {
  return find_file(fmt::format("'gpu' of topology '{}'", cluster.file.name), "models/gpu", name);
}

/// The GPU model that passes of an engine take for one of a topology.
std::string served_as(const std::string& name, const ClusterInput& cluster, InputCache& cache) {
  const std::string path = gpu_file(name, cluster);
  const GpuModel& gpu =
      cache.gpus.get(changed_file(path, {}), [&] { return read_gpu_model(path); });
  return gpu.serves_as.empty() ? name : gpu.serves_as;
}

/// A path is relative to the topology's file if nothing is there otherwise.
void open_gpus(const Scenario& scenario, const std::string& topology_path, ClusterInput& cluster,
               std::vector<Diagnostic>& warnings, InputCache& cache) {
  std::map<std::string, std::shared_ptr<const GpuModel>> models;
  for (int g = 0; g < cluster.topology.gpu_count(); ++g) {
    const std::string& stated = cluster.topology.gpu_model(GpuId(g));
    auto& model = models[stated];
    if (!model) {
      const std::string named = stated.find('/') == stated.npos
                                    ? stated
                                    : as_named_in(topology_path, "models/gpu", stated);
      const std::string name = scenario.serves() ? served_as(named, cluster, cache) : named;
      const std::string path = gpu_file(name, cluster);
      const auto overrides = changes_of_gpu(scenario, name, cache);
      GpuModel read = cache.gpus.get(changed_file(path, overrides),
                                     [&] { return read_gpu_model(path, overrides); });
      const std::string shipped =
          cache.data_sheets.get(read.name, [&] { return data_sheet_of(read.name); });
      if (!shipped.empty()) {
        const std::string of_sheet = data_file("models/gpu", shipped);
        const GpuModel& sheet =
            cache.gpus.get(changed_file(of_sheet, {}), [&] { return read_gpu_model(of_sheet); });
        for (Diagnostic& d : doubled_figures(path, read, sheet)) warnings.push_back(std::move(d));
      }
      if (scenario.iteration) {
        read.training_traffic =
            training_traffic(scenario.iteration->precision.format, scenario.gradient_bytes);
        read.training_traffic.fused_experts = scenario.iteration->fused_grouped_mlp;
        if (const auto& serving = scenario.iteration->serving) {
          read.training_traffic = serving_traffic(serving->weights);
        }
        if (scenario.iteration->host) {
          read.host = *scenario.iteration->host;
        } else if (!read.host.takes_time()) {
          read.host = open_software(scenario, cache).host;
        }
        if (read.host.assumed) read.host = read.host.slower(read.host_slowdown);
        const auto& serving = scenario.iteration->serving;
        // An engine says by itself which of its passes are graphs.
        const bool graph = serving && (scenario.engine_run ? serving->graphs : serving->in_graph());
        if (serving && !graph) read.host.graphs = {};
        if (scenario.iteration->fused_grouped_mlp) read.host.grouped = true;
      }
      model = std::make_shared<const GpuModel>(std::move(read));
      cluster.gpu_files.push_back(input_file(name, path, overrides, cache));
    }
    cluster.gpus.push_back(model);
  }
}

/// The same cluster, whose routes the two share.
Topology copy_of(const Topology& topology) {
  return topology.of_gpus({topology.all_gpus().begin(), topology.all_gpus().end()});
}

/// Whether a copy numbers hosts and groups alike; so it does unless they are out of order.
bool is_same(const Topology& a, const Topology& b) {
  const auto same_host = [&](GpuId gpu) { return a.host_of(gpu) == b.host_of(gpu); };
  const auto same_level = [](const Level& x, const Level& y) {
    return x.name == y.name && x.group_of == y.group_of;
  };
  return a.host_count() == b.host_count() && std::ranges::all_of(a.all_gpus(), same_host) &&
         std::ranges::equal(a.levels(), b.levels(), same_level);
}

TopologyFile topology_of(const std::string& path, const std::vector<Override>& overrides,
                         const ClusterLimits& limits, InputCache& cache) {
  const auto read = [&] { return read_topology(path, overrides, limits); };
  const TopologyFile& known = cache.topologies.get(changed_file(path, overrides), read);
  TopologyFile copy{copy_of(known.topology), known.warnings, known.resolved,
                    known.connections,       known.costs,    known.calibrations};
  return is_same(copy.topology, known.topology) ? std::move(copy) : read();
}

}  // namespace

ClusterInput open_cluster(const Scenario& scenario, const std::string& name,
                          std::vector<Diagnostic>& warnings, InputCache& cache) {
  const auto overrides = scenario.overrides_of("topology", name);
  const std::string path = data_file("topologies", name);
  ClusterLimits limits;
  limits.gpus = scenario.most_gpus;
  TopologyFile file = read_changed("topology", scenario.topologies.size(), overrides,
                                   [&] { return topology_of(path, overrides, limits, cache); });
  warnings.insert(warnings.end(), file.warnings.begin(), file.warnings.end());
  ClusterInput cluster{
      whole_input(input_file(name, path, overrides, cache), file.calibrations, cache),
      std::move(file.topology),
      {},
      {},
      0,
      {},
      0,
      {}};
  cluster.connections = std::move(file.connections);
  cluster.costs = file.costs;
  open_gpus(scenario, path, cluster, warnings, cache);
  if (scenario.iteration) warn_of_mxfp8(cluster, *scenario.iteration, warnings);
  return cluster;
}

std::vector<std::string> gpus_without_mxfp8(const ClusterInput& cluster,
                                            const IterationSpec& spec) {
  const bool asked = spec.serving ? spec.serving->weights == DataType::mxfp4_mxfp8
                                  : spec.precision.format == TrainingPrecision::mxfp8;
  std::vector<std::string> names;
  for (const auto& gpu : cluster.gpus) {
    const bool known = std::ranges::find(names, gpu->name) != names.end();
    if (asked && !known && !gpu->peak.contains(DataType::fp4)) names.push_back(gpu->name);
  }
  return names;
}

}  // namespace moesim
