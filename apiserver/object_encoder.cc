#include "apiserver/object_encoder.h"

#include "apiserver/metadata_proto.h"

namespace larder::apiserver {
namespace {

constexpr std::string_view kPartialPrefix =
    R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",)";

std::string PartialAnswer(std::string_view object_meta) {
  const std::string raw = EncodePartialObject(object_meta);
  return UnknownHead("PartialObjectMetadata", "meta.k8s.io/v1", raw.size()) + raw + UnknownTail();
}

}  // namespace

ObjectEncoder::ObjectEncoder(const ResourceInfo& info, MediaType media)
    : media_(media), custom_(info.custom), type_prefix_(info.TypePrefix()) {}

std::string ObjectEncoder::Object(const StoredBody::Rendered& rendered) const {
  if (media_.protobuf) return PartialAnswer(EncodeObjectMeta(rendered.Metadata()));
  std::string out;
  if (media_.partial) {
    out.append(kPartialPrefix).append(R"("metadata":)").append(rendered.Metadata()).append("}");
  } else {
    out.append(type_prefix_).append(rendered.text, 1);
  }
  return out;
}

void ObjectEncoder::AppendItem(const StoredBody::Rendered& rendered, std::string& out) const {
  if (media_.protobuf) {
    out += EncodeListItem(EncodePartialObject(EncodeObjectMeta(rendered.Metadata())));
  } else if (media_.partial) {
    out.append(kPartialPrefix).append(R"("metadata":)").append(rendered.Metadata()).append("}");
  } else if (custom_) {
    out.append(type_prefix_).append(rendered.text, 1);
  } else {
    out.append(rendered.text);
  }
}

void ObjectEncoder::AppendEvent(std::string_view type, const StoredBody::Rendered& rendered,
                                std::string& out) const {
  if (media_.protobuf) {
    out += EncodeWatchFrame(type, PartialAnswer(EncodeObjectMeta(rendered.Metadata())));
    return;
  }
  out.append(R"({"type":")").append(type).append(R"(","object":)");
  if (media_.partial) {
    out.append(kPartialPrefix).append(R"("metadata":)").append(rendered.Metadata()).append("}");
  } else {
    out.append(type_prefix_).append(rendered.text, 1);
  }
  out.append("}\n");
}

void ObjectEncoder::AppendBookmark(std::string_view version, bool initial_events_end,
                                   std::string& out) const {
  if (media_.protobuf) {
    out += EncodeWatchFrame("BOOKMARK",
                            PartialAnswer(EncodeBookmarkMeta(version, initial_events_end)));
    return;
  }
  out.append(R"({"type":"BOOKMARK","object":)")
      .append(media_.partial ? kPartialPrefix : std::string_view(type_prefix_))
      .append(R"("metadata":{"resourceVersion":")")
      .append(version)
      .append("\"");
  if (initial_events_end) out += R"(,"annotations":{"k8s.io/initial-events-end":"true"})";
  out += "}}}\n";
}

void ObjectEncoder::AppendError(const ApiStatus& status, std::string& out) const {
  if (media_.protobuf) {
    out += EncodeWatchFrame("ERROR", EncodeStatus(status.code, status.reason, status.message));
    return;
  }
  out.append(R"({"type":"ERROR","object":)").append(status.ToJson()).append("}\n");
}

}  // namespace larder::apiserver
