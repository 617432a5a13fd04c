// Where the operations of a workload come from: a recorded trace or a model. A source says what is
// done in terms of objects; how objects are encoded is the business of the store that they are
// encoded by, so that different encodings can be compared (Prepare).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "storage/store.h"
#include "storage/trace.h"
#include "tuning/model.h"

namespace larder::tuning {

// One operation in the making.
struct Step {
  explicit Step(Store& encoder) : store(&encoder), transaction(encoder.Begin()) {}

  // Encodes, and counts what that takes of the processor.
  Result<void> PutObject(CollectionId collection, const Object& object);

  Store* store;
  TraceStep::Kind kind = TraceStep::Kind::kCommit;
  uint64_t micros = 0;
  bool sync = false;
  Transaction transaction;  // of a commit
  Family family = Family::kObjects;
  std::string key;
  uint64_t rows = 0;
  uint64_t objects = 0;  // encoded
  std::chrono::nanoseconds encode_cpu{0};
};

class WorkSource {
 public:
  virtual ~WorkSource() = default;
  // What a person calls it.
  virtual std::string Name() const = 0;
  // The same for the same operations on the same base: two runs may share results only then.
  virtual std::string Fingerprint() const = 0;
  virtual bool Burst() const = 0;
  virtual uint64_t Steps() const = 0;
  // The collections and records, before anything else; the store is opened again after it.
  virtual Result<void> Prepare(Store& store) = 0;
  // Everything that is there before the first step, in batches.
  using Batch = std::function<Result<void>(Step& step)>;
  virtual Result<void> Base(Store& store, const Batch& batch) = 0;
  // The steps in order; `Base` starts them anew.
  virtual Result<bool> Next(Step& step) = 0;
};

// The same as long as no object of the store was written, added or deleted.
Result<std::string> FingerprintOf(const Store& store);

// `store` may be null: then objects are made up, and their content with them. Otherwise the base is
// that store, and changed objects are those of the store, changed.
Result<std::unique_ptr<WorkSource>> SourceOfModel(const WorkloadModel& model, const Store* store);
// Fails with kInvalidArgument for a trace of another store.
Result<std::unique_ptr<WorkSource>> SourceOfTrace(const std::string& path, const Store& store);

}  // namespace larder::tuning
