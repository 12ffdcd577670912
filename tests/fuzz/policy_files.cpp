// SPDX-License-Identifier: Apache-2.0
// Systems and transports.
#include "sim/policy/system.h"
#include "sim/transport/reader.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {

const Target system_target{
    "system", [](std::string_view bytes) { parse_system(std::string(bytes), "a.yaml"); }};
const Target transport_target{
    "transport", [](std::string_view bytes) { parse_transport(std::string(bytes), "a.yaml"); }};

}  // namespace moesim::fuzz
