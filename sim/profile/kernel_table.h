// SPDX-License-Identifier: Apache-2.0
// Which kernels are of which kind, by their names: data of models/kernels, which users extend.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/profile/profile.h"

namespace moesim {

/// - A pattern is text that the name contains, in any case; `*` is any text between its parts, `^`
///   at its start the start of the name.
/// - The first row with a pattern that fits says the kind.
class KernelTable {
 public:
  struct Row {
    KernelKind kind = KernelKind::unknown;
    std::string library;                             // "DeepEP"; empty: none in particular
    std::vector<std::vector<std::string>> patterns;  // their parts, in small letters; "^" is a part
  };

  /// Adds the rows of a file at the end. Throws Error with all its mistakes.
  void read(const std::string& path);
  /// Null if no row fits.
  const Row* find(std::string_view kernel) const;
  KernelKind kind_of(std::string_view kernel) const;
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
};

/// The users' own files (by name or path) before the shipped table "kernels".
KernelTable kernel_table(const std::vector<std::string>& files);

}  // namespace moesim
