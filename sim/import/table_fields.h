// SPDX-License-Identifier: Apache-2.0
// Which field of a log says what: as --map names them, or by the names that loggers use.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// What a field can say of a row: whose choices it holds, and which.
enum class TableRole {
  request,  // sequence that the token is of
  step,     // forward pass or iteration
  rank,     // that held the token
  token,    // its position, or its place in the pass
  layer,
  slot,     // which of the token's choices, if a row is one
  experts,  // one id, the ids of a token, or of several tokens
  weights,  // as experts
  count,    // how often the expert was chosen; or the counts of all experts
  phase
};
inline constexpr std::size_t table_roles = 10;

/// Names in the order of TableRole, as --map writes them.
const std::vector<std::string>& table_role_names();

/// The fields of the roles. Several fields of one role are columns of one list: expert_0, expert_1.
class TableFields {
 public:
  /// `map` holds ROLE=FIELD. Throws Error for a role that is none, or twice.
  explicit TableFields(const std::vector<std::string>& map);

  /// The fields that `names` has of each role: the mapped one, else the first usual name. Throws
  /// Error if a mapped field is none of the names.
  std::array<std::vector<std::size_t>, table_roles> find(const std::vector<std::string>& names,
                                                         const std::string& where) const;
  /// Whether a field can hold choices or counts, which make a row of what it is in.
  bool makes_row(std::string_view name) const;
  /// Whether a field counts an expert if it is next to its number, and only there.
  bool counts_an_expert(const std::string& name) const;
  /// What only the name of a field says; of several roles the first.
  std::optional<TableRole> role_of(std::string_view name) const;
  /// The mapped field of a role, else the role's own name.
  const std::string& name_of(TableRole role) const;
  bool mapped(TableRole role) const { return !mapped_[static_cast<std::size_t>(role)].empty(); }

 private:
  std::array<std::string, table_roles> mapped_;
};

using RolePlaces = std::array<std::vector<std::size_t>, table_roles>;

/// Where the fields of each role are, looked up again only when the names change.
class FieldPlaces {
 public:
  explicit FieldPlaces(const TableFields& fields) : fields_(fields) {}
  const RolePlaces& find(const std::vector<std::string>& names, const std::string& where);
  const TableFields& fields() const { return fields_; }

 private:
  const TableFields& fields_;
  std::vector<std::string> names_;
  RolePlaces places_;
};

/// How many experts there are, or how many a token chooses, as header lines call it.
enum class TableFact { none, experts, top_k };
TableFact table_fact(std::string_view name);

/// Lower case, letters and digits only.
std::string plain_name(std::string_view name);

}  // namespace moesim
