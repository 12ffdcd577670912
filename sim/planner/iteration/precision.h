// SPDX-License-Identifier: Apache-2.0
// The number formats of a training iteration's products.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/model/gemm_types.h"
#include "sim/model/training_traffic.h"

namespace moesim {

/// Numbers of products. fp32: on the units for fp32, without tensor cores.
enum class TrainingPrecision { bf16, fp16, fp8, fp8_blockwise, mxfp8, nvfp4, fp32 };
extern const std::vector<std::string> training_precision_names;

/// All forms of 8 bits count as fp8.
DataType type_of(TrainingPrecision format);

/// What kernels of an iteration move in addition to their operands, if products are in this format
/// and weight gradients add to main gradients of so many bytes.
TrainingTraffic training_traffic(TrainingPrecision format, int gradient_bytes);

/// Quantized formats are used in some parts of some layers; all else is in bf16.
struct Precision {
  TrainingPrecision format = TrainingPrecision::bf16;
  GemmParts parts = usually_quantized;  // Megatron-Core's logits are a product of PyTorch's
  int first_bf16_layers = 0, last_bf16_layers = 0;
  bool bf16_weight_gradients = false;
  bool operator==(const Precision&) const = default;

  bool is_quantized() const { return moesim::is_quantized(type_of(format)); }
  /// Throws Error if it leaves a model more layers in bf16 than it has.
  GemmTypes types(const MoeModel& model) const;
  /// "mxfp8", "mxfp8 (experts; weight gradients bf16)".
  std::string text() const;
};

/// A list of names of parts.
GemmParts read_gemm_parts(const YamlValue& list);

/// `precision`: a format, or {format, parts, bf16_layers: {first, last}, bf16_weight_gradients}.
Precision read_precision(const YamlValue& value);

}  // namespace moesim
