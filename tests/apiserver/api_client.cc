#include "tests/apiserver/api_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <utility>

namespace larder::apiserver {
namespace {

HttpAnswer Convert(const httplib::Result& result) {
  HttpAnswer out;
  if (!result) return out;
  out.code = result->status;
  out.body = result->body;
  for (const auto& [name, value] : result->headers) out.headers[name] = value;
  return out;
}

httplib::Headers Convert(const Headers& headers) {
  httplib::Headers out(headers.begin(), headers.end());
  out.emplace("User-Agent", "larder-test/1");
  return out;
}

// With the token and the CA set.
std::unique_ptr<httplib::Client> Connect(const ServerAddress& address) {
  auto client = std::make_unique<httplib::Client>(address.url);
  if (!address.ca_file.empty()) client->set_ca_cert_path(address.ca_file);
  if (!address.token.empty()) client->set_bearer_token_auth(address.token);
  client->set_read_timeout(60);
  client->set_decompress(false);
  return client;
}

std::string Text(const Json& body) { return body.is_null() ? std::string() : body.dump(); }

}  // namespace

std::string HttpAnswer::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

HttpAnswer ApiClient::Get(const std::string& path, Headers headers) const {
  return Convert(Connect(address_)->Get(path, Convert(headers)));
}

HttpAnswer ApiClient::Post(const std::string& path, const Json& body, Headers headers) const {
  return Convert(Connect(address_)->Post(path, Convert(headers), Text(body), "application/json"));
}

HttpAnswer ApiClient::Put(const std::string& path, const Json& body, Headers headers) const {
  return Convert(Connect(address_)->Put(path, Convert(headers), Text(body), "application/json"));
}

HttpAnswer ApiClient::Patch(const std::string& path, const Json& body,
                            const std::string& type) const {
  return Convert(Connect(address_)->Patch(path, Convert(Headers()), Text(body), type));
}

HttpAnswer ApiClient::Delete(const std::string& path, const Json& body) const {
  return Convert(
      Connect(address_)->Delete(path, Convert(Headers()), Text(body), "application/json"));
}

struct WatchReader::Client {
  std::unique_ptr<httplib::Client> http;
};

WatchReader::WatchReader(const ServerAddress& address, const std::string& path, Headers headers)
    : client_(new Client{Connect(address)}) {
  thread_ = std::thread([this, path, headers] { Run(path, headers); });
}

WatchReader::~WatchReader() {
  Close();
  thread_.join();
}

void WatchReader::Close() { client_->http->stop(); }

void WatchReader::Run(const std::string& path, const Headers& headers) {
  const httplib::Result result = client_->http->Get(
      path, Convert(headers),
      [this](const httplib::Response& response) {
        std::lock_guard lock(mutex_);
        code_ = response.status;
        changed_.notify_all();
        return true;
      },
      [this](const char* data, size_t size) {
        std::lock_guard lock(mutex_);
        partial_.append(data, size);
        size_t start = 0;
        for (size_t end = partial_.find('\n'); end != std::string::npos;
             end = partial_.find('\n', start)) {
          lines_.push_back(partial_.substr(start, end - start));
          start = end + 1;
        }
        partial_.erase(0, start);
        changed_.notify_all();
        return true;
      });
  std::lock_guard lock(mutex_);
  ended_ = true;
  clean_ = static_cast<bool>(result);
  changed_.notify_all();
}

int WatchReader::Code() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(10), [&] { return code_ != 0 || ended_; });
  return code_;
}

std::optional<std::string> WatchReader::NextLine(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return !lines_.empty() || ended_; });
  if (lines_.empty()) return std::nullopt;
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

Json WatchReader::Next(std::chrono::milliseconds patience) {
  const std::optional<std::string> line = NextLine(patience);
  return line ? Json::parse(*line, nullptr, false) : Json(nullptr);
}

Json WatchReader::NextEvent() {
  while (true) {
    Json event = Next();
    if (event.is_null() || event.value("type", "") != "BOOKMARK") return event;
  }
}

std::string WatchReader::Rest() {
  Ended();
  std::lock_guard lock(mutex_);
  std::string out;
  for (const std::string& line : lines_) out += line + "\n";
  lines_.clear();
  return out + std::exchange(partial_, {});
}

bool WatchReader::Ended(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return ended_; });
}

bool WatchReader::EndedCleanly() {
  std::lock_guard lock(mutex_);
  return ended_ && clean_;
}

std::string Summary(const Json& event) {
  if (!event.is_object()) return "nothing";
  const Json object = event.value("object", Json::object());
  const Json metadata = object.value("metadata", Json::object());
  const std::string type = event.value("type", "");
  if (type == "BOOKMARK") return type + " " + metadata.value("resourceVersion", "");
  if (type == "ERROR") return fmt::format("ERROR {}", object.value("code", 0));
  const std::string ns = metadata.value("namespace", "");
  return fmt::format("{} {}{}{}", type, ns, ns.empty() ? "" : "/", metadata.value("name", ""));
}

std::string VersionOf(const Json& object) {
  return object.value("metadata", Json::object()).value("resourceVersion", "");
}

}  // namespace larder::apiserver
