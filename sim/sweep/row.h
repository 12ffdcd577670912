// SPDX-License-Identifier: Apache-2.0
// One scenario's row of results, as it goes from a worker to the store.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace moesim {

/// What a column holds.
struct SweepValue {
  enum class Kind { integer, real, text };
  Kind kind = Kind::text;
  std::int64_t integer = 0;
  double real = 0;
  std::string text = {};
  bool operator==(const SweepValue&) const = default;
};

SweepValue integer_value(std::int64_t value);
SweepValue real_value(double value);
/// Text that is a number all through becomes one.
SweepValue value_of(const std::string& text);
SweepValue text_value(const std::string& text);

struct SweepFigure {
  std::string column;
  SweepValue value;
};

/// How a scenario ended.
inline const std::string sweep_ok = "ok";                  // it has figures
inline const std::string sweep_unsuitable = "unsuitable";  // it cannot be, or does not fit
inline const std::string sweep_failed = "failed";          // the run of it broke: tried again

inline const std::string hash_ending = "_xxh3";
/// Whether a column holds the hash of an input.
inline bool is_input_hash(const std::string& column) { return column.ends_with(hash_ending); }

struct SweepRow {
  std::int64_t id = 0;
  std::string state = {}, reason = {};
  std::vector<SweepFigure> figures = {};
};

/// Adds a column; the first value of a name stays.
void add_figure(SweepRow& row, const std::string& column, SweepValue value);

/// Numbers and words of a JSON object, those of objects in it under "outer.inner". Lists are left
/// out: what is there once per layer or step has no column. Truth values become 0 and 1.
void add_figures(SweepRow& row, const nlohmann::ordered_json& object,
                 const std::string& prefix = "");

}  // namespace moesim
