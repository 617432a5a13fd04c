// GET, LIST and WATCH.
#include <random>
#include <utility>

#include "apiserver/api_handler.h"
#include "apiserver/gzip_stream.h"
#include "apiserver/http_server.h"
#include "apiserver/list_body.h"
#include "apiserver/list_options.h"
#include "apiserver/list_reader.h"
#include "apiserver/object_encoder.h"
#include "apiserver/watch_stream.h"

namespace larder::apiserver {
namespace {

// The real server's threshold: smaller answers are not worth compressing.
constexpr size_t kGzipThreshold = 128 * 1024;
constexpr size_t kPieceBytes = 256 * 1024;

std::string ContentTypeOf(const FaultPlan& plan, const std::string& type) {
  const Fault* const fault = plan.Find(FaultType::kContentType);
  return fault ? fault->content_type : type;
}

// What a list claims its version is when it is told to lie.
std::string FalseVersion(const std::string& mode, const std::string& version) {
  if (mode == "older") return "1";
  if (mode == "future") return version + "000000000";
  return mode == "empty" ? std::string() : version;
}

bool AcceptsGzip(const httplib::Request& request) {
  return request.get_header_value(HttpServer::kAcceptEncoding).find("gzip") != std::string::npos;
}

// A list on its way out: pieces, gzipped or not, perhaps ending in the middle.
struct ListTransfer {
  ListBody body;
  std::string ready;  // made before the headers were sent
  std::unique_ptr<GzipStream> gzip;
  std::optional<Fault> broken;  // stall or cut

  bool Send(httplib::DataSink& sink) {
    bool more = true;
    while (more) {
      std::string piece = std::exchange(ready, {});
      more = body.Fill(piece, kPieceBytes);
      std::string packed;
      if (gzip) {
        gzip->Add(piece, !more && !broken, packed);
        piece.swap(packed);
      }
      if (!piece.empty() && !sink.write(piece.data(), piece.size())) return false;
    }
    return true;
  }
};

}  // namespace

ApiResult<void> ApiHandler::AnswerObject(Call& call, const StoredPtr& object, int code) {
  ApiResult<MediaType> media = Negotiate(call.request.get_header_value("Accept"), Answer::kObject);
  if (!media) return tl::unexpected(std::move(media).error());
  const ObjectEncoder encoder(*call.target.info, *media);
  std::string body = encoder.Object(object->Render());
  if (!media->protobuf) body += '\n';
  call.response.status = code;
  if (body.size() > kGzipThreshold && AcceptsGzip(call.request)) {
    std::string packed;
    GzipStream().Add(body, true, packed);
    body.swap(packed);
    call.response.set_header("Content-Encoding", "gzip");
  }
  call.response.set_content(body, ContentTypeOf(call.plan, media->ContentType(Answer::kObject)));
  return {};
}

ApiResult<void> ApiHandler::Get(Call& call) {
  ++call.stats.gets;
  const Target& target = call.target;
  ApiResult<ListOptions> options = ListOptions::Parse(
      {{"resourceVersion", Parameter(call.request.params, "resourceVersion")}}, *target.info);
  if (!options) {
    return tl::unexpected(
        MalformedVersionStatus(Parameter(call.request.params, "resourceVersion")));
  }
  if (options->version) {
    const uint64_t now =
        parts_.state.WaitForVersion(*options->version, settings_.version_patience, stop_);
    if (now < *options->version) {
      return tl::unexpected(TooLargeVersionStatus(*options->version, now));
    }
  }
  const StoredPtr object =
      parts_.state.Get(*target.table, ObjectWriter::KeyOf(target.ns, target.name));
  if (!object) return tl::unexpected(NotFoundStatus(*target.info, target.name));
  ++call.stats.objects;
  if (target.subresource == "scale") {
    AnswerJson(200, ScaleJson(*object), call.response);
    return {};
  }
  return AnswerObject(call, object, 200);
}

ApiResult<void> ApiHandler::List(Call& call) {
  ++call.stats.lists;
  const Target& target = call.target;
  ApiResult<MediaType> media = Negotiate(call.request.get_header_value("Accept"), Answer::kList);
  if (!media) return tl::unexpected(std::move(media).error());
  ApiResult<ListOptions> options = ListOptions::Parse(call.request.params, *target.info);
  if (!options) return tl::unexpected(std::move(options).error());
  ApiResult<ListPage> page =
      ReadPage(parts_.state, *target.table, target.ns, *options, settings_.version_patience, stop_);
  if (!page) return tl::unexpected(std::move(page).error());

  ListBody::Header header{page->meta, ""};
  if (options->filter.shard()) header.shard = options->filter.shard()->text();
  if (const Fault* lie = call.plan.Find(FaultType::kVersion)) {
    header.meta.resource_version = FalseVersion(lie->mode, header.meta.resource_version);
  }
  call.stats.objects += page->objects.size();
  auto transfer = std::make_shared<ListTransfer>(ListTransfer{
      ListBody(*target.info, *media, std::move(header), std::move(page->objects)), "", {}, {}});
  for (const FaultType type : {FaultType::kStall, FaultType::kCut}) {
    if (const Fault* fault = call.plan.Find(type)) transfer->broken = *fault;
  }
  if (transfer->broken) transfer->body.EndInTheMiddle();

  const std::string content_type = ContentTypeOf(call.plan, media->ContentType(Answer::kList));
  const bool more = transfer->body.Fill(transfer->ready, kGzipThreshold + 1);
  if (!more && !transfer->broken && transfer->ready.size() <= kGzipThreshold) {
    call.response.set_content(transfer->ready, content_type);
    return {};
  }
  if (AcceptsGzip(call.request)) {
    transfer->gzip = std::make_unique<GzipStream>();
    call.response.set_header("Content-Encoding", "gzip");
    call.response.set_header("Vary", "Accept-Encoding");
  }
  Connection& connection = call.connection;
  call.response.set_chunked_content_provider(
      content_type, [this, transfer, &connection](size_t, httplib::DataSink& sink) {
        if (!transfer->Send(sink)) return false;
        if (!transfer->broken) {
          sink.done();
          return true;
        }
        if (transfer->broken->type == FaultType::kStall) {
          connection.SetWaker([this] { parts_.faults.Wake(); });
          monitor_->Watch(connection);
          parts_.faults.Stall(transfer->broken->id, stop_, [&] { return connection.closed(); });
          monitor_->Forget(connection);
          connection.SetWaker(nullptr);
        }
        return false;
      });
  return {};
}

ApiResult<void> ApiHandler::Watch(Call& call) {
  const Target& target = call.target;
  ApiResult<MediaType> media = Negotiate(call.request.get_header_value("Accept"), Answer::kWatch);
  if (!media) return tl::unexpected(std::move(media).error());
  ApiResult<ListOptions> options = ListOptions::Parse(call.request.params, *target.info);
  if (!options) return tl::unexpected(std::move(options).error());
  ++call.stats.watches;

  WatchStream::Settings settings{settings_.clock, settings_.bookmark_interval,
                                 settings_.version_patience, settings_.watch_timeout, stop_};
  if (options->timeout_seconds.value_or(0) > 0) {
    settings.timeout = std::chrono::seconds(*options->timeout_seconds);
  }
  const std::string content_type = ContentTypeOf(call.plan, media->ContentType(Answer::kWatch));
  Connection& connection = call.connection;
  Stats::Counters& stats = call.stats;
  auto stream = std::make_shared<WatchStream>(
      parts_.state, parts_.faults, stats, target.table, target.info, *media, target.ns,
      *std::move(options), std::move(call.plan), connection, std::move(settings));
  if (ApiResult<void> ready = stream->Prepare(); !ready) {
    return tl::unexpected(std::move(ready).error());
  }
  call.response.set_header("Cache-Control", "no-cache, private");
  call.response.set_chunked_content_provider(
      content_type, [this, stream, &stats, &connection](size_t, httplib::DataSink& sink) {
        ++stats.open_watches;
        connection.SetWaker([this] {
          parts_.state.WakeWatchers();
          parts_.faults.Wake();
        });
        monitor_->Watch(connection);
        const bool clean = stream->Run(sink);
        monitor_->Forget(connection);
        connection.SetWaker(nullptr);
        --stats.open_watches;
        return clean;
      });
  return {};
}

}  // namespace larder::apiserver
