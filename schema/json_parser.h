// A simdjson parser per thread, so that nothing is allocated per object.
//
//   ParserLease parser(json.size());
//   simdjson::ondemand::document document;
//   if (parser->iterate(data, size, allocated).get(document)) ...
//
// A lease for a large document gets a parser of its own, freed at the end: one huge object must not
// pin its working memory to a thread for ever. Leases nest (a second one on the same thread gets
// its own parser).
#pragma once

#include <simdjson.h>

#include <memory>

namespace larder {

class ParserLease {
 public:
  explicit ParserLease(size_t document_bytes) {
    if (document_bytes <= kKeptBytes && !Shared().busy) {
      Shared().busy = true;
      parser_ = &Shared().parser;
    } else {
      own_ = std::make_unique<simdjson::ondemand::parser>();
      parser_ = own_.get();
    }
  }
  ~ParserLease() {
    if (!own_) Shared().busy = false;
  }
  ParserLease(const ParserLease&) = delete;
  ParserLease& operator=(const ParserLease&) = delete;

  simdjson::ondemand::parser* operator->() const { return parser_; }

 private:
  static constexpr size_t kKeptBytes = size_t{256} << 10;
  struct PerThread {
    simdjson::ondemand::parser parser;
    bool busy = false;
  };
  static PerThread& Shared() {
    thread_local PerThread shared;
    return shared;
  }

  simdjson::ondemand::parser* parser_;
  std::unique_ptr<simdjson::ondemand::parser> own_;
};

}  // namespace larder
