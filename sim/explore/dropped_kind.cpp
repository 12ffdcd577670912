// SPDX-License-Identifier: Apache-2.0
#include "sim/explore/dropped_kind.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/html/report_page.h"
#include "sim/model/moe_model.h"
#include "sim/profile/profile_text.h"
#include "sim/scenario/scenario.h"
#include "sim/topology/reader.h"
#include "sim/trace/routing_trace.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// A sort of file: what it is called, and the reader that knows it.
struct DroppedSort {
  const char* kind;
  std::function<Json(const std::string& path, const std::string& version)> read;
};

Json read_trace(const std::string& path, const std::string&) {
  const RoutingTrace trace = RoutingTrace::open(path);
  const TraceInfo& info = trace.info();
  return {{"name", info.name},
          {"model", info.model},
          {"experts", info.experts},
          {"top_k", info.top_k},
          {"steps", trace.step_count()}};
}

Json read_cluster(const std::string& path, const std::string&) {
  const TopologyFile file = read_topology(path);
  return {{"name", file.topology.name()}, {"gpus", file.topology.gpu_count()}};
}

Json read_model(const std::string& path, const std::string&) {
  const MoeModel model = read_moe_model(path);
  return {{"name", model.name}, {"experts", model.experts}, {"top_k", model.top_k}};
}

Json read_dropped_scenario(const std::string& path, const std::string&) {
  std::string text = read_file(path);
  parse_scenario(text, path, {});
  return {{"name", std::filesystem::path(path).stem().string()}, {"text", std::move(text)}};
}

/// A page of it is drawn, so that nothing that a report refuses is shown.
Json read_result(const std::string& path, const std::string& version) {
  report_page({{path, read_file(path)}}, version);
  return {{"name", std::filesystem::path(path).filename().string()}};
}

Json read_dropped_profile(const std::string& path, const std::string&) {
  const ReadProfile read = read_profile({path}, kernel_table({}), [](double) {});
  constexpr int unknown_kernels = 10;
  return {{"name", std::filesystem::path(path).filename().string()},
          {"text", profile_text(ProfileReport(read), unknown_kernels).text()}};
}

/// By what its name says of its form.
std::vector<DroppedSort> sorts_of(const std::string& path) {
  if (is_folder(path)) return {{"trace", read_trace}};
  if (path.ends_with(".yaml") || path.ends_with(".yml")) {
    return {{"topology", read_cluster}, {"scenario", read_dropped_scenario}, {"model", read_model}};
  }
  if (path.ends_with(".json") || path.ends_with(".json.gz") || path.ends_with(".sqlite")) {
    return {{"result", read_result}, {"profile", read_dropped_profile}};
  }
  return {};
}

}  // namespace

std::string dropped_document(const std::string& path, const std::string& version) {
  const std::string name = std::filesystem::path(path).filename().string();
  std::vector<Diagnostic> reasons;
  for (const DroppedSort& sort : sorts_of(path)) {
    try {
      Json document = {{"kind", sort.kind}, {"path", path}};
      document.update(sort.read(path, version));
      return document.dump(-1, ' ', false, Json::error_handler_t::replace);
    } catch (const Error& e) {
      Diagnostic first = e.diagnostics().front();
      if (first.file == path) first.file = name;
      first.message = fmt::format("not a {}: {}", sort.kind, first.message);
      reasons.push_back(std::move(first));
    }
  }
  if (!reasons.empty()) throw Error(reasons);
  throw Error(fmt::format("{}: the page does not know such files", name),
              "topologies, models and scenarios end in .yaml, results and profiles in .json, a "
              "trace is a folder with trace.json");
}

}  // namespace moesim
