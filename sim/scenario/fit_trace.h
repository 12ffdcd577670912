// SPDX-License-Identifier: Apache-2.0
// A recorded trace cut into steps for the GPUs of every cluster.
#pragma once

#include "sim/scenario/inputs.h"

namespace moesim {

/// Chooses the expert-parallel degree, the batches and the steps of every cluster. One of several
/// clusters that they do not fit is marked as unsuitable; throws Error when they fit none.
void fit_trace(const Scenario& scenario, Inputs& inputs, InputCache& cache);
/// The same without what others have cut.
void fit_trace(const Scenario& scenario, Inputs& inputs);

}  // namespace moesim
