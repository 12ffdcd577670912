// SPDX-License-Identifier: Apache-2.0
// Which arrays of .npz and .npy files an import is made of.
#pragma once

#include <map>
#include <string>

#include "sim/trace/import/importer.h"
#include "sim/trace/npy.h"

namespace moesim {

/// Reads all arrays of the inputs and finds each role's by the name that the options give, else by
/// the names that recorders use.
class ImportArrays {
 public:
  /// Throws Error when no array, or several, could be the ids, or weights have another shape.
  explicit ImportArrays(const ImportOptions& options);
  ImportArrays(const ImportArrays&) = delete;
  ImportArrays& operator=(const ImportArrays&) = delete;

  const NpyArray& ids() const { return *ids_; }
  const NpyArray* lengths() const { return lengths_; }  // of the sequences; null when absent
  const NpyArray* weights() const { return weights_; }  // null when absent

 private:
  std::map<std::string, NpyArray> arrays_;  // by name
  const NpyArray* ids_;
  const NpyArray* lengths_;
  const NpyArray* weights_;
};

}  // namespace moesim
