#include "informer/tenant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <tuple>

namespace larder {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<void> Check(const TenantOptions& options) {
  const auto invalid = [&](std::string_view field, std::string_view value, std::string_view rule) {
    return MakeError(ErrorCode::kInvalidArgument, "tenant \"{}\": {} is \"{}\"; allowed: {}",
                     options.name, field, value, rule);
  };
  const bool named = !options.name.empty() &&
                     std::all_of(options.name.begin(), options.name.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
                     });
  if (!named) return invalid("name", options.name, "letters, digits and any of \"-._\"");
  if (options.namespaces.empty() != options.all_namespaces) {
    return invalid("namespaces", Listed(options.namespaces),
                   "at least one namespace, or all_namespaces and none");
  }
  for (const std::string& ns : options.namespaces) {
    if (ns.empty()) return invalid("namespaces", Listed(options.namespaces), "no empty name");
  }
  if (const auto labels = LabelSelector::Parse(options.label_selector); !labels) {
    return invalid("label_selector", options.label_selector, labels.error().message);
  }
  if (const auto fields = FieldSelector::Parse(options.field_selector); !fields) {
    return invalid("field_selector", options.field_selector, fields.error().message);
  }
  return {};
}

// What of `scope` is to be looked for in this informer's objects. All of them have what their
// stream is selected by, because the server has judged it. Where something may be cut out of what
// is stored, it cannot be judged again: nothing would hold. Elsewhere it is, to be sure.
Scope ScopeIn(const SharedInformer& informer, Scope scope) {
  const CollectionSpec& spec = informer.GetIndexer().collection().spec;
  if (spec.transform.empty() && spec.projection.empty()) return scope;
  if (scope.labels.ToString() == spec.label_selector) scope.labels = {};
  if (scope.fields.ToString() == spec.field_selector) scope.fields = {};
  return scope;
}

}  // namespace

Tenant::Tenant(SharedInformerFactory* factory, TenantOptions options)
    : factory_(factory),
      options_(std::move(options)),
      quota_("tenant \"" + options_.name + "\"", options_.max_handlers, options_.max_memory_bytes) {
}

Result<std::unique_ptr<Tenant>> Tenant::Create(SharedInformerFactory* factory,
                                               TenantOptions options) {
  LARDER_RETURN_IF_ERROR(Check(options));
  std::sort(options.namespaces.begin(), options.namespaces.end());
  options.namespaces.erase(std::unique(options.namespaces.begin(), options.namespaces.end()),
                           options.namespaces.end());
  return std::unique_ptr<Tenant>(new Tenant(factory, std::move(options)));
}

// Empty: everything there is.
Result<std::vector<std::string>> Tenant::NamespacesFor(const InformerOptions& options) const {
  if (!options.resource.namespaced) {
    if (options_.cluster_resources) return std::vector<std::string>();
    return MakeError(ErrorCode::kForbidden, "tenant \"{}\" may not see {}: it has no namespace",
                     options_.name, options.resource.ToString());
  }
  if (options.ns.empty()) return options_.namespaces;
  if (options_.all_namespaces ||
      std::binary_search(options_.namespaces.begin(), options_.namespaces.end(), options.ns)) {
    return std::vector<std::string>{options.ns};
  }
  return MakeError(ErrorCode::kForbidden, "tenant \"{}\" may not see {} in {}; allowed: {}",
                   options_.name, options.resource.ToString(), options.ns,
                   Listed(options_.namespaces));
}

Result<ScopedInformer*> Tenant::ForResource(InformerOptions options) {
  LARDER_ASSIGN_OR_RETURN(const std::vector<std::string> namespaces, NamespacesFor(options));
  LARDER_ASSIGN_OR_RETURN(options.label_selector,
                          JoinLabelSelectors(options_.label_selector, options.label_selector));
  LARDER_ASSIGN_OR_RETURN(options.field_selector,
                          JoinFieldSelectors(options_.field_selector, options.field_selector));
  LARDER_ASSIGN_OR_RETURN(CollectionSpec spec, SpecOf(factory_->context(), options));
  MutexLock lock(mutex_);
  std::unique_ptr<ScopedInformer>& informer = informers_[spec.Fingerprint()];
  if (informer) {
    for (const ScopedInformer::Part& part : informer->parts()) {
      LARDER_RETURN_IF_ERROR(SharedInformerFactory::Join(*part.informer, options));
    }
    return informer.get();
  }
  LARDER_ASSIGN_OR_RETURN(auto parts, PartsFor(options, namespaces));
  informer = std::make_unique<ScopedInformer>(std::move(parts), Prefix(), &quota_);
  return informer.get();
}

Result<std::vector<ScopedInformer::Part>> Tenant::PartsFor(
    const InformerOptions& options, const std::vector<std::string>& namespaces) {
  Scope scope;
  LARDER_ASSIGN_OR_RETURN(scope.labels, LabelSelector::Parse(options.label_selector));
  LARDER_ASSIGN_OR_RETURN(scope.fields, FieldSelector::Parse(options.field_selector));
  scope.fields = scope.fields.For(options.resource);
  std::vector<ScopedInformer::Part> parts;
  const std::vector<std::string> all = {std::string()};
  for (const std::string& ns : namespaces.empty() ? all : namespaces) {
    InformerOptions narrow = options;
    narrow.ns = ns;
    LARDER_ASSIGN_OR_RETURN(SharedInformer * informer, factory_->FindWider(narrow));
    if (informer != nullptr) {
      LARDER_RETURN_IF_ERROR(SharedInformerFactory::Join(*informer, narrow));
    } else {
      LARDER_ASSIGN_OR_RETURN(informer, factory_->ForResource(std::move(narrow)));
    }
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const auto& one) { return one.informer == informer; });
    if (part == parts.end()) {
      parts.push_back({informer, ScopeIn(*informer, scope)});
      part = std::prev(parts.end());
    }
    if (!ns.empty()) part->scope.namespaces.insert(ns);
  }
  return parts;
}

Result<std::unique_ptr<WorkQueue>> Tenant::OpenQueue(WorkQueueOptions options) {
  if (options.name.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "tenant \"{}\": a queue needs a name",
                     options_.name);
  }
  options.name = Prefix() + options.name;
  options.store = factory_->context().store;
  return WorkQueue::Open(std::move(options));
}

TenantStatus Tenant::Status() const {
  TenantStatus status;
  status.name = options_.name;
  std::tie(status.handlers, status.memory_bytes) = quota_.InUse();
  MutexLock lock(mutex_);
  for (const auto& [fingerprint, informer] : informers_) {
    if (!informer) continue;
    for (const ScopedInformer::Part& part : informer->parts()) {
      const CollectionSpec& spec = part.informer->GetIndexer().collection().spec;
      // A selector that the scope does not have is the stream's own.
      const auto narrows = [](const std::string& scope, const std::string& stream) {
        return !scope.empty() && scope != stream;
      };
      const bool shared = (spec.ns.empty() && !part.scope.namespaces.empty()) ||
                          narrows(part.scope.labels.ToString(), spec.label_selector) ||
                          narrows(part.scope.fields.ToString(), spec.field_selector);
      status.informers.push_back({spec.ToString(), shared, part.informer->HasSynced()});
    }
  }
  return status;
}

}  // namespace larder
