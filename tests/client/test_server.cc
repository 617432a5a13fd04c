#include "tests/client/test_server.h"

#include <openssl/ssl.h>

#include <stdexcept>

namespace larder::testing {
namespace {

X509_STORE* StoreWith(const Authority* authority) {
  if (authority == nullptr) return nullptr;
  X509_STORE* store = X509_STORE_new();
  X509_STORE_add_cert(store, authority->certificate());
  return store;
}

}  // namespace

TestServer::TestServer() : server_(std::make_unique<httplib::Server>()), tls_(false) { Prepare(); }

TestServer::TestServer(const Identity& identity, const Authority* client_authority) : tls_(true) {
  server_ = std::make_unique<httplib::SSLServer>(identity.certificate.get(), identity.key.get(),
                                                 StoreWith(client_authority));
  Prepare();
}

void TestServer::Prepare() {
  if (!server_->is_valid()) throw std::runtime_error("the test server did not start");
  server_->new_task_queue = [] { return new httplib::ThreadPool(16); };
  server_->set_keep_alive_max_count(1000);
  server_->set_write_timeout(60, 0);
}

TestServer::~TestServer() {
  stopping_ = true;
  server_->stop();
}

void TestServer::Start() {
  port_ = server_->bind_to_any_port("127.0.0.1");
  if (port_ <= 0) throw std::runtime_error("no free port");
  thread_ = std::jthread([this] { server_->listen_after_bind(); });
  while (!server_->is_running()) std::this_thread::yield();
}

std::string TestServer::Url(const std::string& host) const {
  return std::string(tls_ ? "https://" : "http://") + host + ":" + std::to_string(port_);
}

}  // namespace larder::testing
