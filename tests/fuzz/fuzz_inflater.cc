// A gzip body. The first byte is the size of the pieces in which the rest is fed, the second how
// much is taken at once; what comes out must not depend on either, and must be what zlib makes of
// it.
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "client/inflater.h"

namespace {

struct Text {
  enum class End { kBroken, kCutOff, kWhole };
  std::string text;
  End end = End::kBroken;

  bool operator==(const Text&) const = default;
};

Text Unpack(std::string_view packed, size_t piece_bytes, size_t take_bytes) {
  larder::Inflater inflater;
  Text out;
  std::string part;
  for (; !packed.empty(); packed.remove_prefix(std::min(piece_bytes, packed.size()))) {
    const std::string piece(packed.substr(0, piece_bytes));
    inflater.Feed(piece);
    for (;;) {
      const auto produced = inflater.Produce(part, take_bytes);
      if (!produced) return out;
      LARDER_CHECK(*produced == part.size() && part.size() <= take_bytes);
      if (part.empty()) break;
      out.text += part;
    }
  }
  out.end = inflater.AtMemberEnd() ? Text::End::kWhole : Text::End::kCutOff;
  return out;
}

Text UnpackByZlib(std::string_view packed) {
  constexpr int kGzip = 16 + MAX_WBITS;
  Text out;
  z_stream stream{};
  LARDER_CHECK(inflateInit2(&stream, kGzip) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string part(size_t{1} << 16, '\0');
  int code = Z_STREAM_END;
  do {
    if (code == Z_STREAM_END && stream.avail_in == 0) break;
    if (code == Z_STREAM_END) inflateReset(&stream);
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    code = inflate(&stream, Z_NO_FLUSH);
    out.text.append(part, 0, part.size() - stream.avail_out);
  } while (code == Z_OK || code == Z_STREAM_END);
  inflateEnd(&stream);
  if (code == Z_STREAM_END) out.end = Text::End::kWhole;
  if (code == Z_BUF_ERROR) out.end = Text::End::kCutOff;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  constexpr size_t kMost = size_t{1} << 16;
  const std::string_view packed(reinterpret_cast<const char*>(data + 2), size - 2);
  const Text text = Unpack(packed, packed.size() + 1, kMost);
  const Text in_pieces = Unpack(packed, size_t{data[0]} + 1, (size_t{data[1]} + 1) * 16);
  LARDER_CHECK(in_pieces.end == text.end);
  if (text.end != Text::End::kBroken) LARDER_CHECK(in_pieces.text == text.text);

  // The libraries may differ in when they notice that something is broken, and in what they forgive
  // in a header; not in a byte of what they make.
  const Text expected = UnpackByZlib(packed);
  const size_t both = std::min(text.text.size(), expected.text.size());
  LARDER_CHECK(text.text.compare(0, both, expected.text, 0, both) == 0);
  if (expected.end == Text::End::kWhole) LARDER_CHECK(text == expected);
  if (expected.end == Text::End::kCutOff) LARDER_CHECK(text.end != Text::End::kWhole);
  return 0;
}
