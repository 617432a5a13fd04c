// The parts of a Simulator, put together. Not for users: include apiserver/simulator.h.
#pragma once

#include <memory>
#include <stop_token>

#include "apiserver/api_handler.h"
#include "apiserver/control_handler.h"
#include "apiserver/http_server.h"
#include "apiserver/simulator.h"
#include "apiserver/tls.h"

namespace larder::apiserver {

class Simulator::Impl {
 public:
  explicit Impl(SimulatorOptions given);
  ~Impl();

  Result<void> Start();
  void Stop();
  ApiResult<ResourceInfoPtr> Lookup(std::string_view resource) const;
  Result<ObjectPtr> Parse(const ResourceInfo& info, const StoredPtr& stored) const;
  std::string FirstToken() const;

  SimulatorOptions options;
  std::stop_source stop_source;
  State state;
  ResourceRegistry registry;
  ObjectWriter writer;
  Faults faults;
  apiserver::Stats stats;
  Authorizer authorizer;
  std::unique_ptr<Churn> churn;
  std::unique_ptr<TlsAuthority> tls;
  std::unique_ptr<ApiHandler> api;
  std::unique_ptr<ControlHandler> control;
  std::unique_ptr<HttpServer> server;

 private:
  void MakeTables();
  Result<void> MakeNamespaces();
};

}  // namespace larder::apiserver
