// SPDX-License-Identifier: Apache-2.0
// Logs as those export them who collect what containers, services and notebooks print.
#pragma once

#include <optional>
#include <string>

namespace moesim {

/// The printed lines, oldest first, if the text is an export of a log:
/// - JSON, a document or one in each line, whose entries have what was printed ("log", "message",
///   "textPayload", ...) and most when it came: Docker, Kubernetes, journald, Fluent Bit, Loki,
///   Elasticsearch, Splunk, CloudWatch, Google Cloud, Datadog, OpenTelemetry; or a notebook;
/// - CSV of which one column is the message and another the time.
/// Throws Error for a line of JSON lines that is not JSON.
std::optional<std::string> exported_lines(const std::string& text, const std::string& file);

}  // namespace moesim
