// How another process asks the owner of a store for something: files in DIR/tuning, which the owner
// looks at every sync_interval. Only who may write into the store's directory can ask.
//
//   options        what `larder tune apply` chose: used at the next start, and at once where
//   RocksDB
//                  can change it while it runs
//   record         asks for a trace; taken away again, it ends early
//   trace.part     the trace while it grows, `trace` once it is whole, `record.error` if it failed
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "storage/engine_options.h"
#include "storage/trace.h"

namespace larder {

std::string TuningPath(const std::string& store_path);
std::string AppliedOptionsPath(const std::string& store_path);

// Checks that a live process owns the store and asks it to record for so long. kNotReady where
// nobody owns it, kAlreadyExists while another recording runs.
Result<void> RequestRecording(const std::string& store_path, std::chrono::milliseconds duration,
                              uint64_t max_bytes);
// Ends it now; what was recorded stays.
void EndRecording(const std::string& store_path);

struct RecordingProgress {
  enum class State { kAsked, kRecording, kDone, kFailed };
  State state = State::kAsked;
  uint64_t bytes = 0;
  std::string error;  // kFailed: why
};
RecordingProgress LookAtRecording(const std::string& store_path);
// Moves the trace away, to a file that may be on another disk.
Result<void> TakeRecording(const std::string& store_path, const std::string& to);

// Which options took effect at once in a store that is open, and which wait for its next start: so
// do those that are not among them any more. A store that has to open its database again keeps what
// was changed.
struct LiveChange {
  std::vector<std::string> changed;
  std::vector<std::string> at_next_start;
};
Result<LiveChange> ChangeOptions(Store& store, const EngineOptions& engine);

// Puts the options where every later start of the store finds them; an owner that runs takes at
// once what it can. Empty options take the file away.
Result<void> LeaveOptions(const std::string& store_path, const EngineOptions& engine);

}  // namespace larder
