// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/meet/greeting.h"

#include <algorithm>

namespace moesim {
namespace {

struct VerdictHead {
  std::int32_t code = 0;
  std::uint32_t size = 0;
};

constexpr std::uint32_t longest_reason = 4096;

}  // namespace

void write_verdict(const Socket& socket, const Verdict& verdict, Clock::time_point deadline) {
  const std::string reason = verdict.reason.substr(0, longest_reason);
  write_all(socket,
            bytes_of(VerdictHead{verdict.code, static_cast<std::uint32_t>(reason.size())}) + reason,
            deadline);
}

Verdict read_verdict(const Socket& socket, Clock::time_point deadline) {
  const auto head = read_words<VerdictHead>(socket, deadline);
  return {head.code, read_all(socket, std::min(head.size, longest_reason), deadline)};
}

}  // namespace moesim
