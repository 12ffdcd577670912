// SPDX-License-Identifier: Apache-2.0
// Small files that crash, hang or swell a reader which does not expect them.
#pragma once

#include <string>
#include <vector>

namespace moesim {

struct HostileInput {
  std::string name;
  std::string content;
  bool placed = true;  // whether the complaint can tell a line
};

/// Every list begins with what no text is: nothing, a NUL byte, Latin-1; and ends with `sound`, a
/// good file, cut short.
std::vector<HostileInput> hostile_yaml(const std::string& sound);
std::vector<HostileInput> hostile_json(const std::string& sound);
/// Text with lines of its own form.
std::vector<HostileInput> hostile_lines(const std::string& sound);
/// JSON and lines as gzip files, the file itself cut, and one that unpacks to a thousand times its
/// size.
std::vector<HostileInput> hostile_gzip(const std::vector<HostileInput>& texts);
/// Arrays whose headers lie, and cut ones.
std::vector<HostileInput> hostile_npy(const std::string& sound);
/// An archive of `name`.npy with these, and with entries that lie.
std::vector<HostileInput> hostile_npz(const std::string& name, const std::string& sound);

/// A zip archive of one stored member.
std::string zipped(const std::string& name, const std::string& content);

}  // namespace moesim
