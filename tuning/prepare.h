// A workload, encoded in one way and ready to be replayed: two traces, one of what is there before,
// one of what happens. Made once for each encoding that the candidates want, because encoding costs
// more than all the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "storage/options.h"
#include "tuning/source.h"

namespace larder::tuning {

// How objects are encoded, as [Larder] of the options says.
struct Encoding {
  bool compress = true;
  int level = 3;
  uint64_t dictionary_bytes = uint64_t{64} << 10;

  static Encoding Of(const EngineOptions& engine);
  // "value-zstd3-dict64k", "plain": also a file name.
  std::string Name() const;
  auto operator<=>(const Encoding&) const = default;
};

struct Prepared {
  std::string base_path;
  std::string steps_path;
  bool burst = false;
  uint64_t steps = 0;
  uint64_t objects = 0;          // that the steps write
  uint64_t base_rows = 0;        // of all families
  uint64_t base_bytes = 0;       // keys and values of what is there before
  uint64_t committed_bytes = 0;  // of the steps' batches
  double encode_micros = 0;      // of the processor, for one object
};

struct PrepareOptions {
  std::string folder{};  // for the traces, and for the store that encodes while it does
  std::function<void(uint64_t done, uint64_t all)> progress{};
  std::stop_token stop{};
};
Result<Prepared> Prepare(WorkSource& source, const Encoding& encoding,
                         const PrepareOptions& options);

}  // namespace larder::tuning
