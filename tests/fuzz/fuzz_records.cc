// The small records of a store, as they may stand on a damaged disk: reading one gives an error or
// a record that is written and read again as it is. The first byte chooses the kind: cursor,
// collection, index, queue item, waiting change, dictionary, a trace's steps, a trace.
#include <fcntl.h>
#include <flatbuffers/flatbuffers.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "schema/delta_generated.h"
#include "storage/dictionary.h"
#include "storage/records.h"
#include "storage/trace.h"
#include "storage/value_codec.h"

namespace {

namespace records = larder::records;

template <typename Decode, typename Encode>
void CheckRecord(std::string_view bytes, const Decode& decode, const Encode& encode) {
  const auto record = decode(bytes);
  if (!record) {
    LARDER_CHECK(!record.error().message.empty());
    return;
  }
  const std::string written = encode(*record);
  const auto again = decode(written);
  LARDER_CHECK(again.has_value() && encode(*again) == written);
}

// As PendingDeltas does it, without a store.
void CheckPendingDelta(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!larder::fbs::VerifyPendingDeltaBuffer(verifier)) return;
  const larder::fbs::PendingDelta* delta = larder::fbs::GetPendingDelta(bytes.data());
  for (const flatbuffers::Vector<uint8_t>* state : {delta->known(), delta->first()}) {
    if (!state) continue;
    const std::string value(reinterpret_cast<const char*>(state->data()), state->size());
    (void)larder::DecodeValue("1/ns/name", value, {});
  }
}

// The checksum is made right, so that what is behind it is reached.
void CheckDictionary(std::string_view bytes) {
  const larder::Dictionary made(7, bytes.size(), std::string(bytes));
  const auto read = larder::Dictionary::Parse(7, made.Serialize());
  LARDER_CHECK(read.has_value() == !bytes.empty());
  if (!read) return;
  LARDER_CHECK((*read)->seen() == bytes.size() && (*read)->StoredBytes() == bytes.size());
  (void)larder::Dictionary::Parse(7, bytes);
  // What zstd takes for a dictionary and is none is no crash either.
  std::string out;
  (void)larder::Decompress(bytes, 1000, read->get(), out);
  larder::Compressor compressor;
  if (const auto packed = compressor.Compress(bytes, read->get(), larder::kValueLevel)) {
    const std::string kept(*packed);
    LARDER_CHECK(larder::Decompress(kept, bytes.size(), read->get(), out).has_value());
    LARDER_CHECK(out == bytes);
  }
}

// Without what is in a commit (ForEachRow): Debian's RocksDB asserts that a batch is one of its
// own.
void ReadTrace(const std::string& path) {
  const auto reader = larder::TraceReader::Open(path);
  if (!reader) return;
  larder::TraceStep step;
  uint64_t steps = 0;
  for (;; ++steps) {
    const auto more = (*reader)->Next(step);
    LARDER_CHECK(more.has_value());  // Open has read all of it
    if (!*more) break;
  }
  LARDER_CHECK(steps == (*reader)->steps());
}

// A file in memory.
const std::string& TracePath() {
  static const std::string path =
      "/proc/self/fd/" + std::to_string(memfd_create("trace", MFD_CLOEXEC));
  return path;
}

void CheckTraceSteps(std::string_view steps) {
  auto writer = larder::TraceWriter::Create(TracePath()).value();
  LARDER_CHECK(writer->AddBlock(steps).has_value());
  LARDER_CHECK(writer->Finish({}).has_value());
  ReadTrace(TracePath());
}

void CheckTrace(std::string_view bytes) {
  const int file = ::open(TracePath().c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  const bool written =
      ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(file);
  LARDER_CHECK(written);
  ReadTrace(TracePath());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // A copy of its own, so that reading past its end is seen.
  const std::string copy(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string_view bytes = copy;
  switch (data[0] % 8) {
    case 0:
      CheckRecord(bytes, records::DecodeCursor, records::EncodeCursor);
      break;
    case 1:
      CheckRecord(bytes, records::DecodeCollection, records::EncodeCollection);
      break;
    case 2:
      CheckRecord(bytes, records::DecodeIndex, records::EncodeIndex);
      break;
    case 3:
      CheckRecord(bytes, records::DecodeQueue, records::EncodeQueue);
      break;
    case 4:
      CheckPendingDelta(bytes);
      break;
    case 5:
      CheckDictionary(bytes);
      break;
    case 6:
      CheckTraceSteps(bytes);
      break;
    default:
      CheckTrace(bytes);
  }
  return 0;
}
