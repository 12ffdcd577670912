// SPDX-License-Identifier: Apache-2.0
#include "sim/base/yaml.h"
#include "sim/model/roofline.h"

namespace moesim {
namespace {

constexpr Range efficiencies{0.01, 1};
constexpr Range lengths{0, 1e6};

Roofline read_roofline(const YamlMap& map) {
  Roofline roofline;
  roofline.launch = map.seconds("launch", Seconds(0));
  roofline.efficiency = map.number("efficiency", efficiencies);
  roofline.memory = map.number("memory", efficiencies, 1);
  roofline.sharpness = map.number("sharpness", {1, 1000}, roofline.sharpness);
  return roofline;
}

template <class Rest>
FittedKernels::ByType read_by_type(const YamlMap& map, const char* key, Rest read_rest) {
  FittedKernels::ByType fitted;
  const auto value = map.find(key);
  if (!value) return fitted;
  const YamlMap types = value->map();
  const auto read = [&](DataType type) {
    const auto of_type = types.find(name_of(type));
    if (!of_type) return;
    const YamlMap fields = of_type->map();
    fitted[type] = read_roofline(fields);
    read_rest(fields, fitted[type]);
  };
  for (const DataType type : product_types) read(type);
  for (const DataType type : stored_types) read(type);
  return fitted;
}

}  // namespace

FittedKernels FittedKernels::of_engine(const std::string& name) const {
  FittedKernels fitted = *this;
  const auto own = engine_experts.find(name);
  if (own == engine_experts.end()) return fitted;
  for (const auto& [type, roofline] : own->second) fitted.grouped_gemm[type] = roofline;
  return fitted;
}

FittedKernels read_fitted_kernels(const YamlMap& map) {
  FittedKernels fitted;
  const auto value = map.find("kernels");
  if (!value) return fitted;
  const YamlMap kinds = value->map();
  const auto gemm = [](const YamlMap& fields, Roofline& roofline) {
    roofline.half_sum = fields.number("half_sum", lengths, 0);
    roofline.group_rows = fields.number("group_rows", lengths, 0);
    roofline.wgrad = fields.number("wgrad", efficiencies, 1);
  };
  fitted.gemm = read_by_type(kinds, "gemm", gemm);
  fitted.grouped_gemm = read_by_type(kinds, "grouped_gemm", gemm);
  fitted.tiles = read_by_type(kinds, "tiles", gemm);
  if (const auto engines = kinds.find("engine_experts")) {
    const YamlMap by_engine = engines->map();
    for (const std::string& engine : by_engine.keys()) {
      fitted.engine_experts[engine] = read_by_type(by_engine, engine.c_str(), gemm);
    }
  }
  const auto attention = [](const YamlMap& fields, Roofline& roofline) {
    roofline.half_keys = fields.number("half_keys", lengths, 0);
    roofline.half_width = fields.number("half_width", lengths, 0);
    roofline.query_passes = fields.number("query_passes", {0, 1000}, 0);
    roofline.uneven = fields.number("uneven", {0.01, 2}, 1);
    roofline.backward = fields.number("backward", efficiencies, 1);
  };
  fitted.attention = read_by_type(kinds, "attention", attention);
  fitted.decode = read_by_type(kinds, "decode", attention);
  fitted.latent_decode = read_by_type(kinds, "latent_decode", attention);
  return fitted;
}

}  // namespace moesim
