package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"reflect"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Those that have every field filled in: between them they hold all types. Of the others an empty
// object shows what is left out.
var filled = map[string]bool{
	"Pod": true, "Node": true, "Secret": true, "Service": true, "Lease": true, "NetworkPolicy": true,
	"ControllerRevision": true, "HorizontalPodAutoscaler": true, "EndpointSlice": true,
	"ValidatingWebhookConfiguration": true, "ConfigMap": true, "PersistentVolumeClaim": true,
	"Status": true,
}

type filler struct{ count int }

// A different value each time.
func (f *filler) fill(v reflect.Value, depth int) {
	f.count++
	n := f.count
	moment := time.Unix(1_700_000_000+int64(n)*86_413, int64(n)*1_001_000).UTC()
	switch value := v.Addr().Interface().(type) {
	case *meta.Time:
		*value = meta.NewTime(moment.Truncate(time.Second))
		return
	case *meta.MicroTime:
		*value = meta.NewMicroTime(moment.Truncate(time.Microsecond))
		return
	case *resource.Quantity:
		*value = resource.MustParse([]string{"250m", "64Mi", "3", "1500Ki", "1e3"}[n%5])
		return
	case *intstr.IntOrString:
		*value = []intstr.IntOrString{intstr.FromInt32(int32(n)), intstr.FromString("25%"), intstr.FromInt32(-1)}[n%3]
		return
	case *meta.FieldsV1:
		*value = meta.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{},"f:a<b>&c":{}}},"k:{\"type\":\"x y\"}":{}}`)}
		return
	case *runtime.RawExtension:
		*value = runtime.RawExtension{Raw: []byte("{ \"a\" : [1, \"b c\\\" d\"],\n\t\"e\":null}")}
		return
	case *meta.TypeMeta:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{
			fmt.Sprintf("text-%d", n), "quote\" back\\slash /", "<a href='x'>&amp;</a>", "tab\tline\nreturn\r\b\f\x01\x7f",
			"Grüße, 世界 🎉", "separators \u2028\u2029 bad \xff\xc0\x80\xed\xa0\x80 end",
		}[n%6])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt([]int64{int64(n), -int64(n), 0, 1<<31 - 1, -1 << 31}[n%5])
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("bytes\x00\xff"[:1+n%7]))
			return
		}
		length := 1 + n%2
		if depth > 6 {
			length = 1
		}
		v.Set(reflect.MakeSlice(v.Type(), length, length))
		for i := range length {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"b", "a/x", "é", ""} {
			element := reflect.New(v.Type().Elem()).Elem()
			f.fill(element, depth+1)
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), element)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), depth+1)
		}
	}
}

// Lines of version, kind, protobuf in base64 and the JSON that the API server sends.
func printObjects(scheme *runtime.Scheme) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
	var kinds []schema.GroupVersionKind
	for gvk := range scheme.AllKnownTypes() {
		kinds = append(kinds, gvk)
	}
	sort.Slice(kinds, func(a, b int) bool { return kinds[a].String() < kinds[b].String() })
	for _, gvk := range kinds {
		t := scheme.AllKnownTypes()[gvk]
		if !wanted(scheme, gvk) || (table{}).add(t) != nil {
			continue
		}
		for _, full := range []bool{false, true} {
			if full && !filled[gvk.Kind] {
				continue
			}
			value := reflect.New(t)
			if full {
				(&filler{count: len(gvk.Kind)}).fill(value.Elem(), 0)
			}
			wire, err := value.Interface().(marshaler).Marshal()
			if err != nil {
				panic(err)
			}
			// As the server has it: read from protobuf.
			object := reflect.New(t)
			if err := object.Interface().(interface{ Unmarshal([]byte) error }).Unmarshal(wire); err != nil {
				panic(err)
			}
			object.Interface().(runtime.Object).GetObjectKind().SetGroupVersionKind(gvk)
			var text bytes.Buffer
			if err := encoder.Encode(object.Interface().(runtime.Object), &text); err != nil {
				panic(err)
			}
			fmt.Fprintf(out, "%s %s %s %s", gvk.GroupVersion(), gvk.Kind, base64.StdEncoding.EncodeToString(wire), text.Bytes())
		}
	}
}
