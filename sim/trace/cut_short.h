// SPDX-License-Identifier: Apache-2.0
// Files that lose bytes while they are mapped: the kernel then raises SIGBUS at the first use.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace moesim {

/// While it lives, a use of bytes that the file no longer has ends the process with exit code 1 and
/// a message that names the file, in place of a bare signal. What is mapped stays that; SIGBUS from
/// elsewhere does what it did.
class GuardedMapping {
 public:
  GuardedMapping() = default;
  GuardedMapping(std::span<const std::byte> bytes, const std::string& path);
  ~GuardedMapping();
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(GuardedMapping&& other) noexcept;

 private:
  struct Entry* entry_ = nullptr;
};

}  // namespace moesim
