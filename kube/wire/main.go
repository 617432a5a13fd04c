// Prints what a reader needs to turn Kubernetes' protobuf into the JSON that the API server would
// have sent: for each message the fields in the order of the JSON, with number, name, type and
// whether an empty one is left out. It reads the Go types' own tags, which both encoders go by.
//
//	go run . >../../schema/kubernetes.wire
//	go run . objects >../../tests/schema/wire_objects.txt
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"sort"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types that write their own JSON.
var special = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():            "time",
	reflect.TypeFor[meta.MicroTime]():       "microtime",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "intorstring",
	reflect.TypeFor[meta.FieldsV1]():        "raw",
	reflect.TypeFor[runtime.RawExtension](): "raw",
}

type marshaler interface{ Marshal() ([]byte, error) }
type jsonMarshaler interface{ MarshalJSON() ([]byte, error) }

func implements[I any](t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[I]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

// core/v1.Pod
func name(t reflect.Type) string {
	path := strings.TrimPrefix(t.PkgPath(), "k8s.io/api/")
	return strings.TrimPrefix(path, "k8s.io/apimachinery/pkg/apis/") + "." + t.Name()
}

type table map[string][]string

// The type as the table names it; an error where the reader has no such type.
func (known table) typeOf(t reflect.Type) (string, error) {
	if word, ok := special[t]; ok {
		return word, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner, err := known.typeOf(t.Elem())
		return "*" + inner, err
	case reflect.Slice:
		if implements[marshaler](t) {
			return "", fmt.Errorf("%s is a list with a message of its own", t)
		}
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		inner, err := known.typeOf(t.Elem())
		return "[]" + inner, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return "", fmt.Errorf("%s has keys that are not text", t)
		}
		inner, err := known.typeOf(t.Elem())
		return "map:" + inner, err
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "bool", nil
	case reflect.Int32, reflect.Int64:
		return "int", nil
	case reflect.Struct:
		if implements[jsonMarshaler](t) {
			return "", fmt.Errorf("%s writes its own JSON", t)
		}
		return name(t), known.add(t)
	}
	return "", fmt.Errorf("%s is of a kind that is not known here", t)
}

func (known table) add(t reflect.Type) error {
	if _, ok := known[name(t)]; ok {
		return nil
	}
	known[name(t)] = nil // it may hold itself
	var lines []string
	for i := range t.NumField() {
		field := t.Field(i)
		json, wire := strings.Split(field.Tag.Get("json"), ","), strings.Split(field.Tag.Get("protobuf"), ",")
		if field.Type == reflect.TypeFor[meta.TypeMeta]() || json[0] == "-" && wire[0] == "-" {
			continue // it travels beside the message, or not at all
		}
		if len(wire) < 2 {
			return fmt.Errorf("%s.%s has no number", t, field.Name)
		}
		word, err := known.typeOf(field.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, field.Name, err)
		}
		key := json[0]
		if key == "" {
			key = "-"
		}
		line := fmt.Sprintf("  %s %s %s", wire[1], key, word)
		for _, option := range json[1:] {
			if option == "omitempty" || option == "omitzero" {
				line += " " + option
			} else if option != "inline" {
				return fmt.Errorf("%s.%s: JSON option %s", t, field.Name, option)
			}
		}
		lines = append(lines, line)
	}
	known[name(t)] = lines
	return nil
}

func everyKind() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistration.AddToScheme, apps.AddToScheme, autoscaling.AddToScheme, batch.AddToScheme,
		certificates.AddToScheme, coordination.AddToScheme, core.AddToScheme, discovery.AddToScheme,
		events.AddToScheme, flowcontrol.AddToScheme, networking.AddToScheme, node.AddToScheme, policy.AddToScheme,
		rbac.AddToScheme, scheduling.AddToScheme, storage.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

// Objects that can be listed, and the Status that stands for one where something went wrong.
func wanted(scheme *runtime.Scheme, gvk schema.GroupVersionKind) bool {
	if gvk == meta.Unversioned.WithKind("Status") {
		return true
	}
	_, listed := scheme.AllKnownTypes()[gvk.GroupVersion().WithKind(gvk.Kind+"List")]
	_, object := reflect.New(scheme.AllKnownTypes()[gvk]).Interface().(meta.Object)
	return listed && object
}

func main() {
	scheme := everyKind()
	if len(os.Args) > 1 && os.Args[1] == "objects" {
		printObjects(scheme)
		return
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	version := "?"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "k8s.io/api" {
				version = module.Version
			}
		}
	}
	fmt.Fprintf(out, "# Kubernetes' built-in kinds in protobuf and in JSON, read from the tags of k8s.io/api %s by kube/wire.\n", version)
	fmt.Fprintf(out, "# A message's fields stand in the order of its JSON: number, JSON name (- where its fields are the outer\n")
	fmt.Fprintf(out, "# message's), type, what is left out. schema/wire_schema.h reads it.\n")

	known, kinds := table{}, []string{}
	for gvk, t := range scheme.AllKnownTypes() {
		if !wanted(scheme, gvk) {
			continue
		}
		trial := table{}
		for message, lines := range known {
			trial[message] = lines
		}
		if err := trial.add(t); err != nil {
			fmt.Fprintf(os.Stderr, "left out: %s: %v\n", gvk, err)
			continue
		}
		known = trial
		kinds = append(kinds, fmt.Sprintf("kind %s %s %s", gvk.GroupVersion(), gvk.Kind, name(t)))
	}
	sort.Strings(kinds)
	fmt.Fprintln(out, strings.Join(kinds, "\n"))
	var messages []string
	for message := range known {
		messages = append(messages, message)
	}
	sort.Strings(messages)
	for _, message := range messages {
		fmt.Fprintln(out, "message "+message)
		for _, line := range known[message] {
			fmt.Fprintln(out, line)
		}
	}
}
