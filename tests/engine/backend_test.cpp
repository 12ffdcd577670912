// SPDX-License-Identifier: Apache-2.0
// The shared suite on every simulating backend.
#include "tests/engine/backends.h"

namespace moesim::test {

const auto cases =
    testing::Values(port_case, served_case, flow_case, together_case, simgrid_case, analytic_case);
const auto name = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Simulated, BackendOrder, cases, name);
INSTANTIATE_TEST_SUITE_P(Simulated, BackendTimes, cases, name);

}  // namespace moesim::test
