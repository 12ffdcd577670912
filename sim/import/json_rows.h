// SPDX-License-Identifier: Apache-2.0
// Rows of JSON values: objects that have choices or counts, with the plain fields of the objects
// that they are in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/import/json_items.h"
#include "sim/import/table_fields.h"
#include "sim/import/table_rows.h"

namespace moesim {

class JsonRows {
 public:
  JsonRows(FieldPlaces& places, const TableReader::Use& use, TableFacts& facts)
      : places_(places), use_(use), facts_(facts) {}

  /// Uses all rows of a value, and notes what the others of its objects say.
  void visit_item(const JsonElement& item, const std::string& file, int line);
  std::int64_t rows() const { return rows_; }

 private:
  struct Field {
    std::string name;
    JsonElement value;
  };

  bool makes_row(std::string_view key, const JsonElement& value) const;
  void visit_value(const JsonElement& value, int depth);
  void visit_object(const simdjson::dom::object& object, int depth);
  bool visit_root_layers(const JsonElement& item);
  bool visit_layers(const JsonElement& value, int depth);
  bool visit_layer_fields(const simdjson::dom::object& object);
  void emit_layer(std::int64_t layer, const JsonElement& ids);
  void emit(std::size_t own);

  FieldPlaces& places_;
  const TableReader::Use& use_;
  TableFacts& facts_;
  std::string file_;
  int line_ = 0;
  std::vector<Field> scope_;  // of the objects around
  std::optional<std::int64_t> keyed_layer_;
  std::int64_t rows_ = 0;
};

}  // namespace moesim
