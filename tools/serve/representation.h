// Objects as a client asked for them: whole, metadata only, or as rows of a Table.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/api_status.h"
#include "tools/serve/resource_book.h"

namespace larder::tools {

enum class Shape { kObject, kMetadata, kTable };

// What an Accept header asks for. Fails with 406.
apiserver::ApiResult<Shape> ShapeOf(std::string_view accept);

// Writes answers in one shape. Immutable.
class Representation {
 public:
  // `include_object` is the Table parameter includeObject: "", "None", "Metadata", "Object".
  Representation(const ServedResource& resource, Shape shape, std::string include_object);

  // The answer to a GET.
  std::string One(const Object& object) const;
  // A list is a head, items with commas between them, and a tail.
  std::string ListHead(std::string_view version, std::string_view continue_token) const;
  void AppendItem(const Object& object, std::string& out) const;
  std::string ListTail() const;
  // A line of a watch; the object is shown with this version. `first`: a Table's first event has
  // the columns.
  std::string Event(std::string_view type, const Object& object, std::string_view version,
                    bool first) const;
  std::string Bookmark(std::string_view version, bool initial_events_end) const;

 private:
  std::string TableHead(std::string_view version, std::string_view continue_token,
                        bool with_columns) const;
  void AppendRow(const Object& object, std::string& out) const;
  std::string Metadata(const Object& object) const;

  const ServedResource& resource_;
  const Shape shape_;
  const std::string include_object_;
};

}  // namespace larder::tools
