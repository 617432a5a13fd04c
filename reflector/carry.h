// A thing that comes in pieces, put together: what every splitter of a stream keeps between two of
// them. Nothing is copied of a thing that came whole. Internal to reflector/.
//
//   carry.Release();                            // at the beginning of every step
//   if (!ends_here) carry.Append(part);         // the rest comes with the next piece
//   else return carry.Complete(part);           // a view, until the next Release
#pragma once

#include <string>
#include <string_view>

#include "reflector/buffer_limits.h"

namespace larder {

class Carry {
 public:
  // Of what is not whole yet.
  size_t size() const { return given_ ? 0 : bytes_.size(); }

  void Append(std::string_view part) { bytes_.append(part); }

  // The whole, whose last part this is.
  std::string_view Complete(std::string_view last) {
    if (bytes_.empty()) return last;
    bytes_.append(last);
    given_ = true;
    return bytes_;
  }

  // Forgets what was given out.
  void Release() {
    if (!given_) return;
    given_ = false;
    bytes_.clear();
    if (bytes_.capacity() > kKeptBytes) bytes_.shrink_to_fit();
  }

 private:
  std::string bytes_;
  bool given_ = false;  // what Complete returned
};

}  // namespace larder
