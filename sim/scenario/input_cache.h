// SPDX-License-Identifier: Apache-2.0
// Inputs that many scenarios share, opened once. What it hands out is what a fresh look would give,
// as long as the files stay as they are.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sim/model/gpu_model.h"
#include "sim/model/moe_model.h"
#include "sim/model/software.h"
#include "sim/planner/system.h"
#include "sim/topology/reader.h"
#include "sim/trace/batches.h"
#include "sim/transport/transport.h"

namespace moesim {

/// The values of the last keys that were asked for.
template <class Value>
class Memo {
 public:
  explicit Memo(std::size_t most) : most_(most) {}

  /// Null if it is not there.
  const Value* find(const std::string& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    values_.splice(values_.begin(), values_, found->second);
    return &found->second->second;
  }

  const Value& get(const std::string& key, const std::function<Value()>& make) {
    if (const Value* known = find(key)) return *known;
    values_.emplace_front(key, make());
    places_[key] = values_.begin();
    if (values_.size() > most_) {
      places_.erase(values_.back().first);
      values_.pop_back();
    }
    return values_.front().second;
  }

 private:
  using Entry = std::pair<std::string, Value>;
  std::size_t most_;
  std::list<Entry> values_;  // the last one asked for first
  std::map<std::string, typename std::list<Entry>::iterator> places_;
};

/// For one thread. Keys hold paths, and what a scenario changes in the files.
struct InputCache {
  Memo<RoutingTrace> traces{16};
  Memo<std::string> hashes{64};  // of traces and request logs
  Memo<bool> checked_ids{64};
  Memo<SomeBatches> batches{16};
  Memo<std::string> files{256};
  Memo<MoeModel> models{64};
  Memo<SystemSpec> systems{256};
  Memo<GpuModel> gpus{32};
  Memo<std::string> data_sheets{32};
  Memo<Software> software{16};
  Memo<TopologyFile> topologies{8};
  Memo<TransportPtr> transports{64};  // null: ideal
};

}  // namespace moesim
