// SPDX-License-Identifier: Apache-2.0
// What people call an op.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <utility>

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

}  // namespace moesim
