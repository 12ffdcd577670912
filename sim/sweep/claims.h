// SPDX-License-Identifier: Apache-2.0
// Who simulates which unit of a sweep: every worker takes the next one that nobody has taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moesim {

/// Units from 0 on that are taken one after the other.
class Claims {
 public:
  virtual ~Claims() = default;
  /// Nothing when all are taken.
  virtual std::optional<std::int64_t> next() = 0;
};

/// All of them by this process.
std::unique_ptr<Claims> own_claims(std::int64_t count);

/// Among processes that share a folder, on any number of machines: who creates a file first has the
/// `chunk` units that it stands for. The files stay: who continues later takes another folder.
std::unique_ptr<Claims> file_claims(std::int64_t count, const std::string& folder,
                                    std::int64_t chunk);

/// Creates a file that must not be there yet; false if somebody else has. Throws std::system_error.
bool create_alone(const std::string& path);

}  // namespace moesim
