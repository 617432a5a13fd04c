#include "apiserver/http_server.h"

#include <sys/socket.h>

#include <utility>

#include "apiserver/thread_pool.h"

namespace larder::apiserver {
namespace {

// Longer than a head may take: a client that may ask keeps its connection for the next request,
// Go's for as long as this. Not without end, because a thread is kept with it.
constexpr std::chrono::seconds kKeepAlive{90};
// The real server's limit for a request's body.
constexpr size_t kMaxBody = 3 * 1024 * 1024;

// What httplib would get wrong for us.
void AdaptRequest(httplib::Request& request) {
  const std::string encoding = request.get_header_value("Accept-Encoding");
  request.headers.erase("Accept-Encoding");
  if (!encoding.empty()) request.set_header(HttpServer::kAcceptEncoding, encoding);
  // Without a length httplib reads a body until the connection ends.
  if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
    request.set_header("Content-Length", "0");
  }
  // httplib would copy the answer once for each range that is asked for. A server may answer with
  // the whole.
  request.ranges.clear();
  // httplib would unpack the body, whatever that takes: its limit is one of what is sent. The real
  // server leaves a body as it came, too.
  request.headers.erase("Content-Encoding");
  // httplib would take a form apart, and leave the body of one in parts empty: by regular
  // expressions, which a line of a few KiB keeps busy for seconds, before anybody asks who sent it.
  const std::string type = request.get_header_value("Content-Type");
  if (type.starts_with("multipart/form-data") ||
      type.starts_with("application/x-www-form-urlencoded")) {
    request.headers.erase("Content-Type");
    request.set_header("Content-Type", "application/octet-stream");
  }
}

}  // namespace

HttpServer::HttpServer(Options options, RequestHandler handler)
    : options_(std::move(options)), handler_(std::move(handler)) {
  new_task_queue = [this] { return new ThreadPool(options_.max_connections); };
  // httplib's default shares a port with whoever asks for it (SO_REUSEPORT): two simulators on one
  // port would each get half of the requests, and nobody an error.
  set_socket_options([](socket_t sock) {
    const int on = 1;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  set_payload_max_length(kMaxBody);
  set_keep_alive_timeout(kKeepAlive.count());
  const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
    handler_(request, response, *Connection::Current());
  };
  Get(".*", handle);
  Post(".*", handle);
  Put(".*", handle);
  Patch(".*", handle);
  Delete(".*", handle);
}

HttpServer::~HttpServer() { Stop(); }

Result<void> HttpServer::Start() {
  // The system would take what is left of it in 16 bits.
  if (options_.port < 0 || options_.port > 65535) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is no port: there are 0 to 65535",
                     options_.port);
  }
  port_ = options_.port == 0                           ? bind_to_any_port(options_.host)
          : bind_to_port(options_.host, options_.port) ? options_.port
                                                       : -1;
  if (port_ <= 0) {
    return MakeError(
        ErrorCode::kUnavailable,
        "cannot listen on {}:{}: the port is in use, or the address is not one of this "
        "machine; choose another port, or 0 for any free one",
        options_.host, options_.port);
  }
  // httplib listens with a backlog of five: a client that opens fifty watches at once would wait a
  // second for its connections. Listening again changes the backlog.
  ::listen(svr_sock_, SOMAXCONN);
  monitor_.Start();
  acceptor_ = std::jthread([this] { listen_after_bind(); });
  while (!is_running()) std::this_thread::yield();
  return {};
}

void HttpServer::Stop() {
  if (stopping_.exchange(true)) return;
  if (acceptor_.joinable()) {
    stop();
    AbortConnections([](const Connection&) { return true; });
    acceptor_.join();
  }
  monitor_.Stop();
}

void HttpServer::AbortConnections(const std::function<bool(const Connection&)>& chosen) {
  MutexLock lock(mutex_);
  for (Connection* connection : connections_) {
    if (chosen(*connection)) connection->Abort();
  }
}

bool HttpServer::process_and_close_socket(socket_t sock) {
  Connection connection(sock, options_.tls, options_.limits);
  {
    MutexLock lock(mutex_);
    // A connection that came after Stop broke the others would never be broken.
    if (stopping_) return false;
    connections_.insert(&connection);
  }
  connection.MakeCurrent();
  if (connection.Accept()) {
    bool last = false;
    while (!stopping_ && !last && connection.WaitForRequest(kKeepAlive)) {
      connection.CountInto(nullptr);
      connection.Throttle(0);
      bool head = false;
      const auto adapt = [&](httplib::Request& request) {
        head = true;
        // Twice, because a body in small chunks has much around them.
        connection.EndHead(2 * kMaxBody);
        AdaptRequest(request);
      };
      if (!process_request(connection, false, last, adapt)) break;
      // Where a request could not be read, nobody knows where the next one begins.
      if (!head || connection.exceeded() || connection.closed()) break;
    }
  }
  MutexLock lock(mutex_);
  connections_.erase(&connection);
  return true;
}

}  // namespace larder::apiserver
