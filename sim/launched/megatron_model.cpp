// SPDX-License-Identifier: Apache-2.0
// Sizes of the model in Megatron-LM's arguments.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/read_number.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

constexpr auto pattern_name = "moe-layer-freq";
constexpr std::size_t most_layers = 10'000;

/// Python's "([0]*3+[1]*58)" as its numbers; nothing for other text.
std::optional<std::vector<int>> list_of(std::string_view text) {
  std::vector<int> all;
  std::string plain;
  for (const char c : text) {
    if (std::string_view(" ()").find(c) == std::string_view::npos) plain += c;
  }
  std::string_view rest = plain;
  while (!rest.empty()) {
    const std::size_t close = rest.find(']');
    if (rest[0] != '[' || close == rest.npos) return std::nullopt;
    std::vector<int> part;
    for (const char c : rest.substr(1, close - 1)) {
      if (c == '0' || c == '1') part.push_back(c - '0');
      if (c != '0' && c != '1' && c != ',') return std::nullopt;
    }
    rest.remove_prefix(close + 1);
    std::size_t times = 1;
    if (rest.starts_with('*')) {
      const std::size_t end = std::min(rest.find('+'), rest.size());
      times = parse_integer<std::size_t>(rest.substr(1, end - 1)).value_or(0);
      rest.remove_prefix(end);
    }
    if (times == 0 || times * part.size() > most_layers) return std::nullopt;
    for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), part.begin(), part.end());
    if (rest.empty()) break;
    if (!rest.starts_with('+') || rest.size() == 1) return std::nullopt;
    rest.remove_prefix(1);
  }
  return all;
}

/// For each layer whether it has experts.
std::vector<int> pattern_of(const LaunchFile& launch, const NamedArgument& argument,
                            std::int64_t layers) {
  const std::string text = argument.text();
  if (const auto every = parse_integer<int>(text); every && *every > 0) {
    std::vector<int> pattern;
    for (int layer = 0; layer < layers; ++layer) pattern.push_back(layer % *every == 0 ? 1 : 0);
    return pattern;
  }
  const bool bare = text.find('[') == text.npos;  // of YAML and of printed arguments
  const auto list = list_of(bare ? "[" + text + "]" : text);
  if (list && std::ssize(*list) == layers) return *list;
  throw launch.arguments.error(
      argument,
      list ? fmt::format("'{}' has {} layers, --num-layers {}", text, list->size(), layers)
           : fmt::format("'{}' does not say which layers have experts", text),
      "a number, or a list such as ([0]*3+[1]*58)");
}

/// What no flag says is as in the model that the others mean: scripts are cut down to what matters.
class StatedSizes {
 public:
  StatedSizes(const LaunchFile& launch, Launched& launched)
      : launch_(launch),
        launched_(launched),
        experts_(count_of(launch, "num-experts num-moe-experts", 0, 0) > 0),
        layers_(count_of(launch, "num-layers", 0, 0)) {}

  void read() {
    read_widths();
    read_layers();
    read_attention();
    read_ends();
  }

 private:
  bool add(const char* names, const char* key, bool tells_apart = false) {
    const NamedArgument* argument = argument_of(launch_, names);
    if (argument == nullptr || argument->text() == "false") return false;
    const auto value = static_cast<double>(number_of(launch_, *argument, 0));
    launched_.sizes.push_back({key, value, argument->line, tells_apart});
    return true;
  }

  bool is_off(const char* name) const {
    return argument_of(launch_, name) != nullptr && !is_on(launch_, name);
  }

  void read_widths() {
    add("ffn-hidden-size", "dense_ffn");
    const bool of_experts = experts_ && count_of(launch_, "moe-ffn-hidden-size", 0, 0) == 0;
    if (of_experts) add("ffn-hidden-size", "expert_ffn", true);
    if (experts_) add("moe-shared-expert-intermediate-size", "shared_ffn");
    const bool gated = is_on(launch_, "swiglu") || is_on(launch_, "quick-geglu");
    if (gated || is_off("swiglu")) {
      launched_.sizes.push_back({"expert_matrices", gated ? 3.0 : 2.0, 0, false});
    }
  }

  void read_layers() {
    add("mtp-num-layers", "mtp");
    const NamedArgument* argument = argument_of(launch_, pattern_name);
    if (argument == nullptr || argument->text() == "false" || !experts_) return;
    if (layers_ == 0 || layers_ > static_cast<std::int64_t>(most_layers)) return;
    const std::vector<int> pattern = pattern_of(launch_, *argument, layers_);
    for (int layer = 0; layer < layers_; ++layer) {
      if (pattern[static_cast<std::size_t>(layer)] != 0) launched_.moe_layers.push_back(layer);
    }
    if (!launched_.moe_layers.empty()) return;
    throw launch_.arguments.error(*argument, "no layer has experts", "or leave --num-experts out");
  }

  void read_attention() {
    if (is_on(launch_, "multi-latent-attention")) return read_latent();
    // Without groups each head has its own keys, whatever the number of groups.
    const bool grouped = !is_off("group-query-attention");
    add(grouped ? "num-query-groups" : "num-attention-heads", "attention.kv_heads");
    add("kv-channels", "attention.head_dim");
  }

  void read_latent() {
    constexpr std::array<std::pair<const char*, const char*>, 5> flags = {
        {{"q-lora-rank", "attention.q_rank"},
         {"kv-lora-rank", "attention.kv_rank"},
         {"qk-head-dim", "attention.nope_dim"},
         {"qk-pos-emb-head-dim", "attention.rope_dim"},
         {"v-head-dim", "attention.value_dim"}}};
    for (const auto& [flag, key] : flags) add(flag, key);
  }

  void read_ends() {
    if (!add("vocab-size padded-vocab-size", "vocabulary")) return;
    constexpr std::int64_t usual = 128;
    const std::int64_t rows = count_of(launch_, "make-vocab-size-divisible-by", usual);
    const std::int64_t tp = count_of(launch_, "tensor-model-parallel-size", 1);
    launched_.sizes.back().multiple = static_cast<int>(rows * tp);
  }

  const LaunchFile& launch_;
  Launched& launched_;
  bool experts_;
  std::int64_t layers_;
};

}  // namespace

void read_megatron_model(const LaunchFile& launch, Launched& launched) {
  StatedSizes(launch, launched).read();
}

}  // namespace moesim
