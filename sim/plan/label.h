// SPDX-License-Identifier: Apache-2.0
// What people call an op; by its type if it has no other name.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "sim/model/op_kind.h"

namespace moesim {

/// A text that copies share: the exchanges of a phase have one, and a plan has millions of ops.
class Label {
 public:
  Label() : Label(std::string()) {}
  Label(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
  Label(const char* text) : Label(std::string(text)) {}

  const std::string& text() const { return *text_; }
  operator const std::string&() const { return *text_; }
  bool operator==(const Label& other) const {
    return text_ == other.text_ || *text_ == *other.text_;
  }
  bool operator==(const std::string& text) const { return *text_ == text; }
  bool operator==(const char* text) const { return *text_ == text; }

 private:
  std::shared_ptr<const std::string> text_;
};

inline std::ostream& operator<<(std::ostream& out, const Label& label) {
  return out << label.text();
}

/// name_of(type), made once: a plan has millions of ops, of some hundred types.
const Label& type_label(const OpType& type);

}  // namespace moesim
