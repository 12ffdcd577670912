// SPDX-License-Identifier: Apache-2.0
// A file of torch.save: a zip archive of a pickle and of the tensors' storages.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/import/pickle.h"
#include "sim/import/zip.h"
#include "sim/trace/npy.h"

namespace moesim {

/// Whether a pass that SGLang recorded is one of a draft model: its gatherer is not "primary".
bool is_of_draft_model(const PickleValue& record);

class TorchFile {
 public:
  /// Reads the pickle, executes nothing and loads no tensor. Throws Error.
  explicit TorchFile(const std::string& path);

  const std::string& path() const { return path_; }
  const PickleValue& root() const { return pickle_->root(); }

  /// What its root is, by name: "the keys a, b", "a list of 3", "a tensor int16 (64, 2)".
  std::string names() const;

  /// Loads a tensor, in C order. Throws Error for a value that is none, or beyond its storage.
  NpyArray load(const PickleValue& tensor, const std::string& name) const;

  /// The value of a key. Throws Error if there is none.
  const PickleValue& at(const PickleValue& dict, const std::string& key) const;
  std::int64_t integer_at(const PickleValue& dict, const std::string& key) const;
  /// The tensor of a key.
  NpyArray load_at(const PickleValue& dict, const std::string& key) const;
  /// The items of a list or tuple. Throws Error if `value` is none.
  const std::vector<PickleValue>& items(const PickleValue& value, const std::string& name) const;
  /// A list of integers.
  std::vector<std::int32_t> integers(const PickleValue& value, const std::string& name) const;

 private:
  std::shared_ptr<const std::vector<std::byte>> storage(const std::string& key) const;

  std::string path_;
  ZipArchive archive_;
  std::string folder_;  // that all members are in
  std::map<std::string, ZipArchive::Member> members_;
  std::unique_ptr<const Pickle> pickle_;
  mutable std::string last_key_;  // tensors may share a storage
  mutable std::shared_ptr<const std::vector<std::byte>> last_;
};

}  // namespace moesim
