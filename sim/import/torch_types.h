// SPDX-License-Identifier: Apache-2.0
// The names that a pickle of tensors refers to.
#pragma once

#include <optional>
#include <string_view>

#include "sim/trace/npy.h"

namespace moesim {

/// Element types by the name of the storage class ("FloatStorage") or dtype ("float32").
std::optional<NpyType> torch_type(std::string_view name);

/// Whether a global is a type or a function that only puts a tensor together.
bool is_harmless(std::string_view global);

}  // namespace moesim
