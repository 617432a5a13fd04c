// The peer of informer_bench: how long client-go's shared informer takes from the start of the process until it has
// synced all pods and its handler has heard of them.
//
//	informer_peer -url http://127.0.0.1:8001
//
// prints a line "seconds_since_main objects peak_resident_mib".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func peakMiB() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(status), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / 1024
		}
	}
	return 0
}

func main() {
	start := time.Now()
	url := flag.String("url", "", "of the API server")
	flag.Parse()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: *url, QPS: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	heard := 0
	registration, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { heard++ }})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, registration.HasSynced) {
		fmt.Fprintln(os.Stderr, "not synced")
		os.Exit(1)
	}
	fmt.Println(time.Since(start).Seconds(), heard, peakMiB())
}
