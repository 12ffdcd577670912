// SPDX-License-Identifier: Apache-2.0
#include "sim/saved/saved_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "sim/base/error.h"
#include "sim/saved/cluster_json.h"
#include "sim/saved/gzip.h"
#include "sim/saved/step_json.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format = "moesim-steps";
constexpr int version = 1;
constexpr const char* again = "write it again with moesim plan --save, or copy it again";

Json file_json(const InputFile& file) { return {{"name", file.name}, {"xxh3", file.hash}}; }

InputFile read_input(const Json& json) {
  return {json.at("name").get<std::string>(), json.at("xxh3").get<std::string>()};
}

Json header_json(const StepsOrigin& o, const Topology& cluster, const Json& policies) {
  return {{"format", format},
          {"format_version", version},
          {"moesim", o.moesim},
          {"scenario", Json::parse(o.scenario)},
          {"trace", file_json(o.trace)},
          {"model", file_json(o.model)},
          {"topology", file_json(o.topology)},
          {"model_name", o.model_name},
          {"hidden", o.hidden},
          {"expert_ffn", o.expert_ffn},
          {"gated", o.gated},
          {"layers", o.layers},
          {"steps", o.steps},
          {"tokens_per_rank", o.tokens_per_rank},
          {"backward", o.backward},
          {"policies", policies},
          {"cluster", cluster_json(cluster)}};
}

StepsOrigin read_origin(const Json& json) {
  StepsOrigin o;
  o.moesim = json.at("moesim").get<std::string>();
  o.scenario = json.at("scenario").dump(1) + "\n";
  o.trace = read_input(json.at("trace"));
  o.model = read_input(json.at("model"));
  o.topology = read_input(json.at("topology"));
  o.model_name = json.at("model_name").get<std::string>();
  o.hidden = json.at("hidden").get<std::int64_t>();
  o.expert_ffn = json.at("expert_ffn").get<std::int64_t>();
  o.gated = json.at("gated").get<bool>();
  o.layers = json.at("layers").get<int>();
  o.steps = json.at("steps").get<int>();
  o.tokens_per_rank = json.at("tokens_per_rank").get<std::int64_t>();
  o.backward = json.at("backward").get<bool>();
  if (o.hidden < 1 || o.expert_ffn < 1) throw Error("the model has no sizes");
  return o;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));  // with its end
    text.remove_prefix(end + 1);
  }
  return lines;
}

/// Reads the lines of a file; whatever fails names the line.
class StepsFile {
 public:
  StepsFile(std::string file, const std::string& text)
      : file_(std::move(file)), text_(text), lines_(lines_of(text)) {}

  SavedSteps read() {
    const Json header = at_line(0, [this] { return read_header(); });
    check_hash();
    SavedSteps steps = at_line(0, [&] {
      return SavedSteps{read_origin(header), read_cluster(header.at("cluster")), {}};
    });
    std::size_t line = 1;
    for (const Json& policy : at_line(0, [&] { return header.at("policies"); })) {
      SavedPolicy& saved = steps.policies.emplace_back();
      at_line(0, [&] {
        saved.name = policy.at("name").get<std::string>();
        saved.unsuitable = policy.value("unsuitable", "");
      });
      for (const Json& hash : at_line(0, [&] { return policy.at("steps_xxh3"); })) {
        saved.steps.push_back(read_step_at(line, hash.get<std::string>(), saved, steps.cluster));
        ++line;
      }
    }
    if (line + 1 != lines_.size()) fail(line, "has steps that line 1 does not list");
    return steps;
  }

 private:
  [[noreturn]] void fail(std::size_t line, const std::string& what,
                         const std::string& hint = again) const {
    throw error_in(file_, what, hint, static_cast<int>(line) + 1);
  }

  template <class Read>
  std::invoke_result_t<Read> at_line(std::size_t line, Read read) const {
    try {
      return read();
    } catch (const Error& e) {
      const Diagnostic& first = e.diagnostics().front();
      if (!first.file.empty()) throw;
      fail(line, first.message);
    } catch (const std::exception& e) {  // of nlohmann, or a value that cannot be
      fail(line, e.what());
    }
  }

  Json read_header() const {
    const Json header = lines_.empty() ? Json() : Json::parse(lines_[0], nullptr, false);
    if (!header.is_object() || header.value("format", "") != format) {
      fail(0, "holds no saved steps", "give a file that moesim plan --save wrote");
    }
    if (const int found = header.at("format_version").get<int>(); found != version) {
      fail(0, fmt::format("is of version {}; this program reads version {}", found, version),
           "save the steps with the moesim that this moesim-hw was built with");
    }
    return header;
  }

  /// The last line is the hash of those before it.
  void check_hash() const {
    const std::size_t last = lines_.size() - 1;
    const Json end = Json::parse(lines_[last], nullptr, false);
    if (last == 0 || !end.is_object() || !end.contains("xxh3")) {
      fail(last, "ends too early: the last line is no hash");
    }
    const std::string_view before =
        std::string_view(text_).substr(0, text_.size() - lines_[last].size());
    if (end["xxh3"] != hash_of(before)) {
      for (std::size_t line = 1; line < last; ++line) check_listed(line);
      fail(last, "the file is not as it was written: its hash differs");
    }
  }

  /// Whether line 1 lists the hash of a line, to tell which one was altered.
  void check_listed(std::size_t line) const {
    if (lines_[0].find(hash_of(lines_[line])) != std::string_view::npos) return;
    fail(line, "the step is not as it was written: its hash differs");
  }

  ExecutableStep read_step_at(std::size_t line, const std::string& hash, const SavedPolicy& policy,
                              const Topology& cluster) const {
    if (line + 1 >= lines_.size()) fail(0, "lists more steps than there are");
    if (hash != hash_of(lines_[line])) {
      fail(line, "the step is not as it was written: its hash differs");
    }
    return at_line(line, [&] {
      const Json json = Json::parse(lines_[line]);
      ExecutableStep step =
          read_step(json, fmt::format("{} line {}, the plan of {}", file_, line + 1, policy.name));
      if (step.plan.gpus != cluster.gpu_count()) {
        throw Error(fmt::format("the plan has {} GPUs, the cluster {}", step.plan.gpus,
                                cluster.gpu_count()));
      }
      return step;
    });
  }

  std::string file_;
  const std::string& text_;
  std::vector<std::string_view> lines_;
};

}  // namespace

std::string pack_steps(const StepsOrigin& origin, const Topology& cluster,
                       const std::vector<SavedPolicy>& policies) {
  Json list = Json::array();
  std::string lines;
  for (const SavedPolicy& policy : policies) {
    Json& entry = list.emplace_back(Json{{"name", policy.name}});
    if (!policy.unsuitable.empty()) entry["unsuitable"] = policy.unsuitable;
    Json& hashes = entry["steps_xxh3"] = Json::array();
    for (const ExecutableStep& step : policy.steps) {
      const std::string line = step_json(step).dump() + "\n";
      hashes.push_back(hash_of(line));
      lines += line;
    }
  }
  const std::string text = header_json(origin, cluster, list).dump() + "\n" + lines;
  return gzipped(text + Json{{"xxh3", hash_of(text)}}.dump() + "\n");
}

SavedSteps read_steps(const std::string& path) {
  const std::string text = read_gzip(path);
  return StepsFile(path, text).read();
}

}  // namespace moesim
