// SPDX-License-Identifier: Apache-2.0
// What a command reads and what it writes: never the same file, and never twice the same one.
#pragma once

#include <string>

namespace moesim {

/// Opens a regular file for reading, which this command then cannot write to. Returns what open()
/// returns. Throws Error for what is not there, a folder, a FIFO, a device, or an output of this
/// command.
int open_input(const std::string& path);

/// The same for a file that a library opens by its name.
void note_input(const std::string& path);

/// The same for a folder whose files are one input, such as a trace: no output of this command may
/// be inside of it.
void note_input_folder(const std::string& path);

/// The name of standard output on command lines.
inline const std::string standard_output = "-";
/// Whether it is "-", /dev/stdout, or what a shell has sent standard output to.
bool is_standard_output(const std::string& path);

/// Takes `path` for an output, so that a long run does not end in a file that cannot be written.
/// Throws Error if it cannot, if this command reads it or the folder that it is in, if another
/// output has its name, or if it is standard output, which other documents are printed to.
void claim_output(const std::string& path);

/// The same for a file that is read to be written anew, such as a page with tables.
void claim_rewritten(const std::string& path);

/// Renames a new file to an output of this command. The file that it replaces is gone, so that
/// its number may be that of another file from now on. Returns what rename() returns.
int rename_to_output(const std::string& from, const std::string& path);

/// Takes standard output for a document. Throws Error if another one goes there.
void claim_standard_output();

}  // namespace moesim
