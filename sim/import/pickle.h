// SPDX-License-Identifier: Apache-2.0
// Reads the pickles of torch.save without running anything: lists, dicts, numbers, texts, tensors.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "sim/trace/npy.h"

namespace moesim {

/// Where a tensor's elements are in the storage of that key.
struct PickleTensor {
  NpyType type;
  std::string storage;
  std::int64_t storage_size = 0;  // elements
  std::int64_t first = 0;
  std::vector<std::int64_t> shape, strides;
};

struct PickleNode;

/// One value; nodes belong to the Pickle.
struct PickleValue {
  enum class Kind {
    none,
    boolean,
    integer,
    real,
    text,
    list,
    tuple,
    dict,
    tensor,
    global,
    storage,
    mark
  };
  Kind kind = Kind::none;
  union {
    std::int64_t integer = 0;
    double real;
    const PickleNode* node;
  };
  bool is(Kind k) const { return kind == k; }
  bool is_list() const { return kind == Kind::list || kind == Kind::tuple; }
};

struct PickleNode {
  std::string text;                // of a text or global
  std::vector<PickleValue> items;  // of a list or tuple; of a dict: key, value, key ...
  PickleTensor tensor;             // of a tensor or storage
};

class Pickle {
 public:
  /// Throws Error for what is damaged, and for anything that only code could build, by its name.
  Pickle(std::span<const std::byte> bytes, const std::string& file);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return root_; }

 private:
  friend class PickleMachine;
  std::deque<PickleNode> nodes_;
  PickleValue root_;
};

/// The value of a key of a dict, null if there is none.
const PickleValue* pickle_get(const PickleValue& dict, const std::string& key);

}  // namespace moesim
