#include "apiserver/list_body.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace larder::apiserver {

ListBody::ListBody(const ResourceInfo& info, MediaType media, Header header,
                   std::vector<StoredPtr> items)
    : encoder_(info, media),
      header_(std::move(header)),
      list_kind_(media.partial ? "PartialObjectMetadataList" : info.list_kind),
      api_version_(media.partial ? "meta.k8s.io/v1" : info.resource.ApiVersion()),
      items_(std::move(items)) {}

std::string ListBody::Head() const {
  Json meta = {{"resourceVersion", header_.meta.resource_version}};
  if (!header_.meta.continue_token.empty()) meta["continue"] = header_.meta.continue_token;
  if (header_.meta.remaining >= 0) meta["remainingItemCount"] = header_.meta.remaining;
  if (!header_.shard.empty()) meta["shardInfo"] = {{"selector", header_.shard}};
  return fmt::format(R"({{"kind":"{}","apiVersion":"{}","metadata":{},"items":[)", list_kind_,
                     api_version_, meta.dump());
}

// The size of the whole comes first in protobuf, so everything is encoded twice: once to be
// measured.
std::string ListBody::ProtobufHead() const {
  const std::string meta = EncodeListMeta(header_.meta);
  size_t size = meta.size();
  std::string scratch;
  for (const StoredPtr& item : items_) {
    scratch.clear();
    encoder_.AppendItem(item->Render(), scratch);
    size += scratch.size();
  }
  return UnknownHead(list_kind_, api_version_, size) + meta;
}

bool ListBody::Fill(std::string& out, size_t bytes) {
  if (ended_) return false;
  const bool protobuf = encoder_.media().protobuf;
  if (!std::exchange(started_, true)) out += protobuf ? ProtobufHead() : Head();
  for (; next_ < items_.size(); ++next_) {
    if (out.size() >= bytes) return true;
    if (next_ > 0 && !protobuf) out += ',';
    const size_t before = out.size();
    encoder_.AppendItem(items_[next_]->Render(), out);
    if (cut_ && next_ == items_.size() / 2) {
      out.resize(before + (out.size() - before) / 2);
      ended_ = true;
      return false;
    }
  }
  out += protobuf ? UnknownTail() : "]}\n";
  ended_ = true;
  return false;
}

}  // namespace larder::apiserver
