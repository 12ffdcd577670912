// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/launched_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/lower_case.h"
#include "sim/base/model_aliases.h"
#include "sim/base/read_number.h"
#include "sim/launched/engine_keys.h"
#include "sim/launched/model_sizes.h"
#include "sim/model/moe_model.h"

namespace moesim {
namespace {

const std::string import_hint = std::string(model_import_hint) + "then --model my-model.yaml";

std::vector<std::pair<std::string, MoeModel>> shipped_models() {
  std::vector<std::pair<std::string, MoeModel>> models;
  for (const std::string& name : data_names("models/moe")) {
    models.emplace_back(name, read_moe_model(data_file("models/moe", name)));
  }
  for (const std::string& name : data_names("models/dense")) {
    models.emplace_back(name, read_dense_model(data_file("models/dense", name)));
  }
  return models;
}

/// Of models whose sizes fit, the first that also has most of the other sizes.
std::string model_by_sizes(Launched& launched) {
  const auto models = shipped_models();
  std::vector<const std::pair<std::string, MoeModel>*> fitting;
  const std::pair<std::string, MoeModel>* nearest_model = nullptr;
  double least = 0;
  std::size_t fewest = 0;
  for (const auto& entry : models) {
    const double apart = size_distance(entry.second, launched);
    if (nearest_model == nullptr || apart < least) {
      nearest_model = &entry;
      least = apart;
    }
    if (!size_differences(entry.second, launched, true).empty()) continue;
    const std::size_t others = size_differences(entry.second, launched, false).size();
    if (fitting.empty() || others < fewest) {
      fitting = {&entry};
      fewest = others;
    } else if (others == fewest) {
      fitting.push_back(&entry);
    }
  }
  if (!fitting.empty()) {
    std::vector<std::string> same;
    for (const auto* entry : fitting) same.push_back(entry->first);
    std::string why = "by its sizes";
    if (same.size() > 1) {
      why += fmt::format("; the same have {}", fmt::join(same.begin() + 1, same.end(), ", "));
    }
    launched.assume("model: " + why);
    take_sizes(fitting.front()->second, launched);
    return same.front();
  }
  const int line = launched.sizes.empty() ? 0 : launched.sizes.front().line;
  if (launched.sizes.empty() || nearest_model == nullptr) return "";
  throw error_in(
      launched.file, "no model here has these sizes",
      fmt::format("--model {} is the nearest, but differs: {}. {}", nearest_model->first,
                  fmt::join(size_differences(nearest_model->second, launched, true), ", "),
                  import_hint),
      line);
}

/// Lower case, with a dash for every other sign, so that names are compared by their letters.
std::string plain_name(std::string_view name) {
  std::string plain = lower_case(name);
  std::ranges::replace(plain, '_', '-');
  return plain;
}

/// Whether a rest of a name says how the model was tuned or stored, but not how large it is.
bool is_variant(std::string_view rest) {
  constexpr std::array words = {"instruct", "chat",   "base",  "thinking", "it",       "hf",
                                "fp8",      "fp4",    "nvfp4", "mxfp4",    "bf16",     "awq",
                                "gptq",     "int4",   "int8",  "w4a16",    "w8a8",     "dynamic",
                                "block",    "exp",    "v0.1",  "v0.3",     "terminus", "original",
                                "preview",  "latest", "kv",    "fp16",     "v1"};
  constexpr std::string_view stored = "quantized.";  // quantized.w4a16
  while (!rest.empty()) {
    if (rest[0] != '-') return false;
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('-'), rest.size());
    std::string_view word = rest.substr(0, end);
    if (word.starts_with(stored)) word.remove_prefix(stored.size());
    if (std::ranges::find(words, word) == words.end() && !parse_integer<int>(word)) return false;
    rest.remove_prefix(end);
  }
  return true;
}

/// The longest name that the given one begins with.
std::string model_by_name(const std::string& given, const std::vector<std::string>& names) {
  std::string best, model;
  const auto consider = [&](std::string_view name, std::string_view of) {
    if (!given.starts_with(name) || name.size() <= best.size()) return;
    if (!is_variant(std::string_view(given).substr(name.size()))) return;
    best = name;
    model = of;
  };
  for (const std::string& name : names) consider(plain_name(name), name);
  for (const auto& [name, of] : model_aliases) consider(name, of);
  for (const std::string& name : names) {  // NVIDIA-Nemotron-3-Nano-30B-A3B
    const std::string nvidia = "nvidia-" + name +
                               (name == "nemotron-3-nano"    ? "-30b-a3b"
                                : name == "nemotron-3-super" ? "-120b-a12b"
                                                             : "");
    consider(nvidia, name);
  }
  return model;
}

/// The last part of an id of Hugging Face or of a path.
std::string last_name(std::string given) {
  while (given.ends_with('/')) given.pop_back();
  // A folder of the cache of Hugging Face: models--deepseek-ai--DeepSeek-V3/snapshots/1a2b.
  const std::size_t cached = given.find("models--");
  if (cached != given.npos) {
    given = given.substr(cached, given.find('/', cached) - cached);
    given = given.substr(given.rfind("--") + 2);
  }
  return given.substr(given.rfind('/') + 1);
}

/// Unless a flag or the name says more, engines load weights as the checkpoint has them.
void assume_weights(const std::string& given, Launched& launched) {
  if (!launched.serving || launched.find("serving.precision") != nullptr) return;
  if (set_weights(given, launched)) launched.assume("serving.precision: by the model's name");
}

/// Engines take no request that is longer than the model's config allows.
void fit_requests(const MoeModel& model, Launched& launched) {
  const RequestLimits limits = launched.limits;
  if (limits.tokens > model.longest) {
    launched.assume(
        fmt::format("requests of up to {}, more than the {} of the config of {}: {} refuses them "
                    "unless told otherwise",
                    counted(limits.tokens, "token"), model.longest, model.name, launched.software));
  } else if (limits.tokens == 0 && model.longest < usual_request_tokens) {
    set_requests(limits.ranks, model.longest, limits.whole_prompts, launched);
  }
}

}  // namespace

std::string model_of_launch(Launched& launched) {
  if (launched.model.empty()) return model_by_sizes(launched);
  const std::string& given = launched.model;
  for (const std::string& path : {given, given + "/config.json"}) {
    if (given.find('/') != given.npos && is_there(path) && !is_folder(path)) return path;
  }
  std::vector<std::string> names = data_names("models/moe");
  const auto dense = data_names("models/dense");
  names.insert(names.end(), dense.begin(), dense.end());
  const std::string plain = plain_name(last_name(given));
  const std::string model = model_by_name(plain, names);
  if (!model.empty()) {
    if (plain_name(model) != plain) {
      launched.assume(fmt::format("model: {} has the sizes of {}", given, model));
    }
    assume_weights(plain, launched);
    return model;
  }
  const std::string near = nearest(plain, names);
  const std::string closest =
      near.empty() ? "" : fmt::format("--model {} is the nearest name. ", near);
  throw error_in(launched.file, fmt::format("the model '{}' is not shipped", given),
                 closest + import_hint, launched.model_line);
}

void compare_sizes(const std::string& model, Launched& launched) {
  if (!launched.model.empty()) assume_weights(plain_name(last_name(launched.model)), launched);
  const MoeModel read = read_moe_model(data_file("models", model));
  if (launched.sizes.empty()) return;
  auto different = size_differences(read, launched, true);
  const auto others = size_differences(read, launched, false);
  different.insert(different.end(), others.begin(), others.end());
  if (different.empty()) return;
  launched.assume(
      fmt::format("model: {} in place of the launch's: {}", model, fmt::join(different, ", ")));
}

void finish_for(const MoeModel& model, Launched& launched) {
  if (launched.find("serving.drafts") != nullptr && model.mtp == 0) {
    launched.assume("serving.drafts: they take no time, as the model has no layer that drafts");
  }
  if (launched.serving && model.longest > 0) fit_requests(model, launched);
  if (launched.balancer.empty()) return;
  const LaunchedKey* ep = launched.find("parallel.ep");
  const std::int64_t ranks = ep == nullptr ? 1 : parse_integer<std::int64_t>(ep->value).value_or(1);
  const std::int64_t slots =
      launched.slots > 0 ? launched.slots : model.experts + launched.redundant;
  launched.change("policy.placement", fmt::format("{{{}, slots_per_gpu: {}}}", launched.balancer,
                                                  (slots + ranks - 1) / ranks));
}

}  // namespace moesim
