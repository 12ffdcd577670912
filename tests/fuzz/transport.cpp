// SPDX-License-Identifier: Apache-2.0
// Transports.
#include "sim/transport/reader.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {

const Target transport_target{
    "transport", [](std::string_view bytes) { parse_transport(std::string(bytes), "a.yaml"); }};

}  // namespace moesim::fuzz
