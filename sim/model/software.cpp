// SPDX-License-Identifier: Apache-2.0
#include "sim/model/software.h"

#include <fmt/format.h>

#include <utility>

#include "sim/base/data_files.h"
#include "sim/model/kernel.h"

namespace moesim {
namespace {

constexpr Range part_of_rates{0.01, 2};
constexpr Range slower{1, 1000};
constexpr Range multiprocessors{0, 100000};
constexpr Range bytes_per_parameter{0, 1024};
const std::string other_dies = "others";

/// How changes are called in messages.
std::string flag_of(const std::string& software) { return "software " + software; }

/// Reads {name: ...}: `changes` of each.
template <class Read>
Software::Changes read_each(const YamlMap& map, const std::string& key, const Read& changes) {
  Software::Changes all;
  const auto value = map.find(key);
  if (!value) return all;
  const YamlMap each = value->map();
  for (const std::string& name : each.keys()) {
    if (const auto of_name = each.find(name)) all[name] = changes(*of_name);
  }
  return all;
}

/// Types that are not listed keep what bf16 does.
Software::Changes read_kept(const YamlMap& map, const std::string& software) {
  return read_each(map, "kept", [&](const YamlValue& value) {
    const YamlMap types = value.map();
    const double bf16 = types.number(name_of(DataType::bf16), part_of_rates);
    std::vector<Override> changes;
    for (const DataType type : product_types) {
      const double kept =
          type == DataType::bf16 ? bf16 : types.number(name_of(type), part_of_rates, bf16);
      changes.push_back({fmt::format("efficiency.training.{}", name_of(type)),
                         fmt::format("{}", kept), flag_of(software), true});
    }
    return changes;
  });
}

/// Reads {name: number}: a change of `path` each.
Software::Changes read_numbers(const YamlMap& map, const std::string& key, Range range,
                               const Override& change) {
  return read_each(map, key, [&](const YamlValue& value) {
    Override made = change;
    made.value = fmt::format("{}", value.number(range));
    return std::vector{made};
  });
}

/// Reads {name: {key: value}}: a change of each key below `place`.
Software::Changes read_parameters(const YamlMap& map, const std::string& key, Override change) {
  return read_each(map, key, [&, place = change.path](const YamlValue& value) {
    std::vector<Override> changes;
    const YamlMap params = value.map();
    for (const std::string& parameter : params.keys()) {
      change.path = place + parameter;
      change.value = params.find(parameter)->json();
      changes.push_back(change);
    }
    return changes;
  });
}

void read_next_to_kernels(const YamlMap& map, Software& software) {
  const std::string flag = flag_of(software.name);
  const auto numbers = [&](const char* key, Software::Changes& all, Range range,
                           const Override& change) {
    if (map.find(key)) all = read_numbers(map, key, range, change);
  };
  numbers("slowdown", software.slowdown, slower, {"overlap.communication", "", flag, true});
  numbers("product_sms", software.product_sms, multiprocessors, {"sms", "", flag});
  numbers("dispatch_sms", software.dispatch_sms, multiprocessors, {"dispatch.sms", "", flag, true});
  if (map.find("transports"))
    software.transports = read_parameters(map, "transports", {"", "", flag});
}

void add(std::vector<Override>& changes, const Software::Changes& all, const std::string& name) {
  const auto found = all.find(name);
  if (found != all.end()) changes.insert(changes.end(), found->second.begin(), found->second.end());
}

/// What the file states; the rest stays as `software` has it.
void read_stated(const YamlMap& map, Software& software) {
  const auto integer = [&](const char* key, int& number, Range range) {
    number = static_cast<int>(map.integer(key, range, number));
  };
  if (map.find("kept")) software.kept = read_kept(map, software.name);
  if (const auto host = map.find("host")) {
    software.host = read_host_model(*host);
    software.host.assumed = true;
  }
  integer("gradient_bytes", software.gradient_bytes, bytes_per_parameter);
  integer("optimizer_bytes", software.optimizer_bytes, bytes_per_parameter);
  integer("update_bytes", software.update_bytes, bytes_per_parameter);
  integer("zero", software.zero, {0, 3});
  if (map.find("zero_of_stages")) {
    software.zero_of_stages = static_cast<int>(map.integer("zero_of_stages", {0, 3}));
  }
  software.collectives = map.string("collectives", software.collectives);
  if (const auto overlap = map.find("overlap")) {
    const YamlMap parts = overlap->map();
    software.overlaps_gradients = parts.boolean("gradients", false);
    software.overlaps_parameters = parts.boolean("parameters", false);
  }
  if (const auto recompute = map.find("recompute")) software.recompute = read_recompute(*recompute);
  const auto read_dispatch = [&](const char* key, Software::Changes& dispatch) {
    if (!map.find(key)) return;
    dispatch = read_parameters(map, key, {"dispatch.", "", flag_of(software.name), true});
  };
  read_dispatch("dispatch", software.dispatch);
  read_dispatch("dispatch_with_stash", software.dispatch_with_stash);
  if (const auto next = map.find("next_to_kernels")) read_next_to_kernels(next->map(), software);
}

Software read(const std::string& path, const std::vector<Override>& overrides, int depth) {
  const auto doc = YamlDocument::from_file(path, overrides);
  const YamlMap map = doc->root().map();
  Software software;
  if (const auto base = map.find("based_on")) {
    const std::string name = base->string();
    if (depth == 0) {
      base->error(fmt::format("'based_on: {}' leads back to this software", name));
    } else if (!name.empty()) {
      software = read(data_file("models/software", name, path), {}, depth - 1);
    }
  }
  software.files.insert(software.files.begin(), path);
  software.name = map.string("name");
  software.description = map.string("description", "");
  software.source = map.string("source");
  read_stated(map, software);
  doc->finish();
  return software;
}

}  // namespace

Software read_software(const std::string& path, const std::vector<Override>& overrides) {
  constexpr int most_bases = 8;
  return read(path, overrides, most_bases);
}

std::vector<Override> Software::changes_of_gpu(const std::string& die,
                                               const ExchangesNextToKernels& exchanges) const {
  std::vector<Override> changes;
  add(changes, kept, kept.contains(die) ? die : other_dies);
  if (exchanges.tokens) add(changes, slowdown, die);
  if (exchanges.any()) add(changes, product_sms, die);
  return changes;
}

std::vector<Override> Software::changes_of_policy(const std::string& kind,
                                                  const ExchangesNextToKernels& exchanges,
                                                  bool stash) const {
  std::vector<Override> changes;
  if (stash) add(changes, dispatch_with_stash, kind);  // the first to state something
  add(changes, dispatch, kind);
  if (exchanges.tokens) add(changes, dispatch_sms, kind);
  return changes;
}

std::vector<Override> Software::changes_of_transport(
    const std::string& name_of_transport, const ExchangesNextToKernels& exchanges) const {
  std::vector<Override> changes;
  if (exchanges.any()) add(changes, transports, name_of_transport);
  return changes;
}

}  // namespace moesim
