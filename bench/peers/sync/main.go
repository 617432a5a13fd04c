// What a first sync of all pods costs client-go's shared informer: time, CPU, peak memory.
//
//	sync -kubeconfig FILE -media json|protobuf
//
// The environment says whether it streams the list: KUBE_FEATURE_WatchListClient=true or false. Prints
// one line of JSON when the informer and its handler have synced.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const protobuf = "application/vnd.kubernetes.protobuf"

func fail(err error) {
	fmt.Fprintln(os.Stderr, "sync:", err)
	os.Exit(1)
}

func usage() (cpu, peak float64) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fail(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime), float64(used.Maxrss) / 1024
}

func main() {
	begun := time.Now()
	file := flag.String("kubeconfig", "", "where the server is")
	media := flag.String("media", "json", "json or protobuf")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *file)
	if err != nil {
		fail(err)
	}
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	if *media == "protobuf" {
		config.ContentType, config.AcceptContentTypes = protobuf, protobuf+",application/json"
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fail(err)
	}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	var added atomic.Int64
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { added.Add(1) },
	})
	if err != nil {
		fail(err)
	}
	go informer.Run(make(chan struct{}))
	for !informer.HasSynced() || !handler.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	elapsed := time.Since(begun).Seconds()
	cpu, peak := usage()
	out, err := json.Marshal(map[string]float64{
		"seconds": elapsed, "cpu_seconds": cpu, "peak_mib": peak, "objects": float64(added.Load()),
	})
	if err != nil {
		fail(err)
	}
	fmt.Println(string(out))
}
