// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim/serving/deployment/deployment.h"

namespace moesim {

/// Throws Error for what cannot be run, with what to do.
void check_deployment(const Deployment& deployment, const RequestLog& log);

}  // namespace moesim
