#include "schema/json_span.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace larder {
namespace {

constexpr size_t kBlock = 64;
// '[' and '{', ']' and '}' differ in this bit only.
constexpr char kFold = 0x20;

struct RawMasks {
  uint64_t quote = 0;
  uint64_t backslash = 0;
  uint64_t open = 0;
  uint64_t close = 0;
};

#if defined(__SSE2__)

RawMasks LoadMasks(const char* block) {
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i open = _mm_set1_epi8('{');
  const __m128i close = _mm_set1_epi8('}');
  const __m128i fold = _mm_set1_epi8(kFold);
  RawMasks masks;
  for (unsigned i = 0; i < kBlock; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + i));
    const __m128i folded = _mm_or_si128(bytes, fold);
    auto bits = [i](__m128i equal) {
      return static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(equal))) << i;
    };
    masks.quote |= bits(_mm_cmpeq_epi8(bytes, quote));
    masks.backslash |= bits(_mm_cmpeq_epi8(bytes, backslash));
    masks.open |= bits(_mm_cmpeq_epi8(folded, open));
    masks.close |= bits(_mm_cmpeq_epi8(folded, close));
  }
  return masks;
}

#else

RawMasks LoadMasks(const char* block) {
  RawMasks masks;
  for (unsigned i = 0; i < kBlock; ++i) {
    const char c = block[i];
    const char folded = static_cast<char>(c | kFold);
    masks.quote |= static_cast<uint64_t>(c == '"') << i;
    masks.backslash |= static_cast<uint64_t>(c == '\\') << i;
    masks.open |= static_cast<uint64_t>(folded == '{') << i;
    masks.close |= static_cast<uint64_t>(folded == '}') << i;
  }
  return masks;
}

#endif

// Bit i of the result is the xor of the bits 0..i: turns quotes into "inside a string".
uint64_t PrefixXor(uint64_t bits) {
  for (unsigned shift = 1; shift < 64; shift <<= 1) bits ^= bits << shift;
  return bits;
}

// The kinds of the brackets that are open, a bit each. More than 64 at once are rare.
class OpenBrackets {
 public:
  uint32_t depth() const { return depth_; }
  void Push(bool square) {
    if (depth_ != 0 && depth_ % 64 == 0) outer_.push_back(kinds_);
    kinds_ = kinds_ << 1 | (square ? 1 : 0);
    ++depth_;
  }
  // Was the innermost one of this kind?
  bool Pop(bool square) {
    const bool same = ((kinds_ & 1) != 0) == square;
    kinds_ >>= 1;
    if (--depth_ != 0 && depth_ % 64 == 0) {
      kinds_ = outer_.back();
      outer_.pop_back();
    }
    return same;
  }

 private:
  uint32_t depth_ = 0;
  uint64_t kinds_ = 0;  // the innermost is the lowest bit
  std::vector<uint64_t> outer_;
};

}  // namespace

JsonSpan::Brackets JsonSpan::Classify(std::string_view text) {
  const size_t valid = std::min(text.size(), kBlock);
  RawMasks masks;
  if (valid == kBlock) {
    masks = LoadMasks(text.data());
  } else {
    char last[kBlock];
    std::memset(last, ' ', kBlock);
    std::memcpy(last, text.data(), valid);
    masks = LoadMasks(last);
  }
  uint64_t escaped = escaped_ ? 1 : 0;
  escaped_ = false;
  // Backslashes are few: going from one to the next is cheaper than the clever ways.
  for (uint64_t rest = masks.backslash; rest != 0; rest &= rest - 1) {
    const unsigned at = static_cast<unsigned>(std::countr_zero(rest));
    if ((escaped >> at & 1) != 0) continue;
    if (at == 63) {
      escaped_ = true;
    } else {
      escaped |= uint64_t{2} << at;
    }
  }
  // Behind a short block there is padding: its first byte must not eat what the backslash was for.
  if (valid < kBlock) escaped_ = (escaped >> valid & 1) != 0;
  uint64_t inside = PrefixXor(masks.quote & ~escaped);
  if (in_string_) inside = ~inside;
  in_string_ = (inside >> 63) != 0;
  return {masks.open & ~inside, masks.close & ~inside};
}

uint32_t JsonSpan::Walk(Brackets brackets) {
  for (uint64_t all = brackets.open | brackets.close; all != 0; all &= all - 1) {
    const unsigned at = static_cast<unsigned>(std::countr_zero(all));
    if ((brackets.open >> at & 1) != 0) {
      if (++depth_ > max_depth_) {
        too_deep_ = true;
        return 64;
      }
    } else if (depth_ <= 1) {
      depth_ = 0;
      return at;
    } else {
      --depth_;
    }
  }
  return 64;
}

std::optional<size_t> JsonSpan::Scan(std::string_view piece) {
  size_t at = 0;
  while (at < piece.size() && !too_deep_) {
    const Brackets brackets = Classify(piece.substr(at));
    const auto opens = static_cast<uint32_t>(std::popcount(brackets.open));
    const auto closes = static_cast<uint32_t>(std::popcount(brackets.close));
    if (closes < depth_ && depth_ + opens <= max_depth_) {
      depth_ += opens - closes;
    } else if (const uint32_t bit = Walk(brackets); bit < 64) {
      return at + bit + 1;
    }
    at += kBlock;
  }
  return std::nullopt;
}

void JsonSpan::Reset() {
  depth_ = 0;
  too_deep_ = in_string_ = escaped_ = false;
}

bool IsOneJsonContainer(std::string_view text, uint32_t max_depth) {
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return false;
  JsonSpan span(max_depth);  // for what it knows of strings
  OpenBrackets open;
  for (size_t at = 0; at < text.size(); at += kBlock) {
    const JsonSpan::Brackets brackets = span.Classify(text.substr(at));
    for (uint64_t all = brackets.open | brackets.close; all != 0; all &= all - 1) {
      const auto bit = static_cast<unsigned>(std::countr_zero(all));
      const bool square = (text[at + bit] & kFold) == 0;
      if ((brackets.open >> bit & 1) != 0) {
        if (open.depth() == max_depth) return false;
        open.Push(square);
      } else {
        if (!open.Pop(square)) return false;
        if (open.depth() == 0) return at + bit + 1 == text.size();
      }
    }
  }
  return false;
}

}  // namespace larder
