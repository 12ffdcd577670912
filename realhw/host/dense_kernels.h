// SPDX-License-Identifier: Apache-2.0
// The dense parts of a model on the CPU.
#pragma once

#include <functional>

#include "realhw/program/dense_calls.h"

namespace moesim {

/// `at`: the memory of a place.
void run_dense(const DenseCall& call, const std::function<float*(Place)>& at);

}  // namespace moesim
