// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/precision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/figures.h"

namespace moesim {

const std::vector<std::string> training_precision_names = {"bf16",  "fp16",  "fp8", "fp8-blockwise",
                                                           "mxfp8", "nvfp4", "fp32"};

DataType type_of(TrainingPrecision format) {
  switch (format) {
    case TrainingPrecision::bf16:
      return DataType::bf16;
    case TrainingPrecision::fp16:
      return DataType::fp16;
    case TrainingPrecision::fp32:
      return DataType::fp32;
    case TrainingPrecision::nvfp4:
      return DataType::fp4;
    case TrainingPrecision::fp8:
    case TrainingPrecision::fp8_blockwise:
    case TrainingPrecision::mxfp8:
      break;
  }
  return DataType::fp8;
}

/// An element is read in 2 bytes and written in two layouts of 1 byte each, which products of rows
/// and of columns read. A scale per tensor needs a pass for the maximum before (Transformer
/// Engine's current scaling). Scales: 4 bytes per 128 elements (blockwise), 1 per 32 (MXFP8), 1 per
/// 16 and two layouts of half a byte behind a pass for the maximum (NVFP4).
// Kernels of Transformer Engine 2.9: pytorch/csrc/quantizer.cpp, common/swizzle/swizzle.cu.
TrainingTraffic training_traffic(TrainingPrecision format, int gradient_bytes) {
  const double main_gradient = 2.0 * gradient_bytes;  // read and written
  switch (format) {
    case TrainingPrecision::fp8:  // zero, maximum, scale, cast with its transpose
      return {main_gradient, 2 + 2 + 2, 4, 0, true};
    case TrainingPrecision::fp8_blockwise:
      return {main_gradient, 2 + 2 * (1 + 4.0 / 128), 1, 0, true};
    case TrainingPrecision::mxfp8:  // scales of both operands
      return {main_gradient, 2 + 2 * (1 + 1.0 / 32), 1, 2, true};
    case TrainingPrecision::nvfp4:
      return {main_gradient, 2 + 2 + 2 * (0.5 + 1.0 / 16), 2, 2, true};
    case TrainingPrecision::bf16:
    case TrainingPrecision::fp16:
    case TrainingPrecision::fp32:
      break;
  }
  return {main_gradient, 0, 0, 0, true};
}

GemmTypes Precision::types(const MoeModel& model) const {
  const DataType type = type_of(format);
  if (!is_quantized()) return GemmTypes::only(type);
  const int in_bf16 = first_bf16_layers + last_bf16_layers;
  if (in_bf16 > model.layers) {
    throw Error(
        fmt::format("precision.bf16_layers are {} of {}", in_bf16, counted(model.layers, "layer")),
        fmt::format("at most all of '{}', or precision: bf16", model.name));
  }
  return {type,
          DataType::bf16,
          parts,
          first_bf16_layers,
          model.layers - last_bf16_layers,
          model.layers,
          !bf16_weight_gradients};
}

std::string Precision::text() const {
  std::vector<std::string> limits;
  if (parts != usually_quantized) {
    limits.push_back(fmt::format("{}", fmt::join(parts.names(gemm_part_names()), ", ")));
  }
  if (first_bf16_layers > 0) limits.push_back(fmt::format("first {} bf16", first_bf16_layers));
  if (last_bf16_layers > 0) limits.push_back(fmt::format("last {} bf16", last_bf16_layers));
  if (bf16_weight_gradients) limits.emplace_back("weight gradients bf16");
  const std::string& name = training_precision_names[static_cast<std::size_t>(format)];
  return limits.empty() ? name : fmt::format("{} ({})", name, fmt::join(limits, "; "));
}

GemmParts read_gemm_parts(const YamlValue& list) {
  GemmParts parts;
  for (const YamlValue& part : list.list()) {
    parts.add(static_cast<GemmPart>(part.choice(gemm_part_names())));
  }
  return parts;
}

Precision read_precision(const YamlValue& value) {
  Precision precision;
  if (!value.is_map()) {
    precision.format = static_cast<TrainingPrecision>(value.choice(training_precision_names));
    return precision;
  }
  const YamlMap map = value.map();
  precision.format = static_cast<TrainingPrecision>(map.choice("format", training_precision_names));
  if (const auto listed = map.find("parts")) precision.parts = read_gemm_parts(*listed);
  if (const auto layers = map.find("bf16_layers")) {
    const YamlMap ends = layers->map();
    constexpr Range counts{0, 10'000};
    precision.first_bf16_layers = static_cast<int>(ends.integer("first", counts, 0));
    precision.last_bf16_layers = static_cast<int>(ends.integer("last", counts, 0));
  }
  precision.bf16_weight_gradients = map.boolean("bf16_weight_gradients", false);
  if (precision.is_quantized() || !map.good({"format"})) return precision;
  for (const char* key : {"parts", "bf16_layers", "bf16_weight_gradients"}) {
    const auto limit = map.find(key);
    if (!limit) continue;
    limit->error(fmt::format("'{}' with a format of 16 bits or more", limit->path()),
                 "parts and layers are for fp8, fp8-blockwise, mxfp8 and nvfp4; others are in all");
  }
  return precision;
}

}  // namespace moesim
