// Which hosts are asked without the proxy that the environment names.
//
// libcurl does this itself, but by the host of the URL, which is another one where a
// tls-server-name is given.
#pragma once

#include <string_view>

namespace larder {

// Is `host` (IPv6 in brackets or not) one of `no_proxy`, as libcurl and curl read it: "*", or names
// and addresses between commas or spaces; a name also stands for all that ends in it
// ("example.com", ".example.com"), an address may be a range ("10.0.0.0/8").
bool IsWithoutProxy(std::string_view host, std::string_view no_proxy);

// What the environment says: no_proxy, else NO_PROXY.
std::string_view NoProxyFromEnvironment();

}  // namespace larder
