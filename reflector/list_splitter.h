// Cuts a Kubernetes list, arriving in pieces of any size, into its items without ever holding the
// list.
//
// `{"kind":"PodList","apiVersion":"v1","metadata":{…},"items":[{…},{…}]}` in any order of keys:
// each element of "items" is handed out as its own text, in place where it lies within one piece,
// otherwise put together in a buffer of at most `max_item_bytes`. What stands beside the items is
// collected in head(); unknown keys are skipped without being kept.
//
// Errors are kProtocol: not a JSON object, a cut-off list, an item that is not an object, is too
// large or too deep, something behind the end, no "items" at all (a list without them must never
// look like an empty one).
//
//   splitter.Feed(piece);
//   for (;;) {
//     auto step = splitter.Next();
//     if (!step || *step != ListSplitter::Step::kItem) break;
//     Use(splitter.item());
//   }
//   ... at the end of the body: splitter.Finish()
//
// Not thread-safe. An item's text is valid until the next call.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "reflector/carry.h"
#include "schema/json_span.h"
#include "schema/object.h"

namespace larder {

// What stands beside a list's items.
struct ListHead {
  std::string api_version;
  std::string kind;              // "PodList"
  std::string resource_version;  // the state that the list shows
  std::string continue_token;    // empty: this was the last page
  std::string
      shard_selector;  // metadata.shardInfo.selector; empty: the server did not select a shard

  // What its items are, as far as it is known by now: "PodList" of "v1" holds {"v1", "Pod"}; else
  // `fallback`.
  TypeMeta ItemType(const TypeMeta& fallback) const;
  // kProtocol where they are something else than `wanted`.
  Result<void> CheckItems(const TypeMeta& wanted) const;
};

class ListSplitter {
 public:
  enum class Step {
    kItem,      // item() is the next one
    kNeedMore,  // Feed the next piece
    kEnd,       // the list is whole; only white space may follow
  };

  ListSplitter(size_t max_item_bytes, uint32_t max_depth)
      : max_item_bytes_(max_item_bytes), span_(max_depth) {}

  // Takes the next piece. It must stay valid until Next() returned kNeedMore or kEnd, which must
  // happen before the next Feed.
  void Feed(std::string_view piece) { rest_ = piece; }
  Result<Step> Next();
  std::string_view item() const { return item_; }
  // At the end of the body: was the list whole?
  Result<void> Finish() const;

  const ListHead& head() const { return head_; }

 private:
  // Where in the document the next byte stands.
  enum class Place {
    kStart,       // before the opening brace
    kKeyOrEnd,    // behind the opening brace
    kKey,         // behind a comma
    kInKey,       // inside the quotes of a key
    kColon,       // behind a key
    kValue,       // behind a colon
    kInText,      // inside the quotes of a value
    kInWord,      // inside a number, true, false or null
    kInSpan,      // inside an object or array beside the items
    kAfterValue,  // comma or closing brace
    kItemOrEnd,   // behind the opening bracket of the items
    kItem,        // behind a comma between items
    kInItem,      // inside an item
    kAfterItem,   // comma or closing bracket
    kDone,        // behind the closing brace
  };

  Result<void> TakeByte(char c);
  Result<void> BeginValue(char c);
  Result<void> BeginItem(char c);
  Result<void> ScanText();
  Result<void> ScanSpan();
  Result<bool> ScanItem();  // true: item_ is whole
  Result<void> Keep(std::string_view part);
  Result<void> EndValue();
  bool WantsValue() const;

  const size_t max_item_bytes_;
  JsonSpan span_;
  Place place_ = Place::kStart;
  std::string_view rest_;
  std::string key_;
  std::string value_;  // of the key that is being read, where it is wanted
  bool escaped_ = false;
  bool items_seen_ = false;
  Carry carry_;  // of an item
  std::string_view item_;
  ListHead head_;
};

}  // namespace larder
