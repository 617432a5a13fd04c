// Objects as Kubernetes' own encoders write them, in protobuf and in JSON (wire_objects.txt, by
// kube/wire).
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/base64.h"
#include "schema/object.h"

namespace larder {

struct WireSample {
  TypeMeta type;
  std::string bytes;
  std::string json;
};

inline std::vector<WireSample> WireSamples() {
  std::vector<WireSample> samples;
  std::ifstream file(LARDER_WIRE_OBJECTS);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    WireSample sample;
    std::string base64;
    words >> sample.type.api_version >> sample.type.kind >> base64;
    sample.bytes = DecodeBase64(base64).value();
    sample.json = line.substr(line.find(" {") + 1);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace larder
