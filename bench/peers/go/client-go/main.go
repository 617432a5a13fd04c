// client-go as a peer of larder.
//
//	client-go sync -kubeconfig FILE [-media json|protobuf] [-strip] [-hold 1s] [-until MARK] [-follow MARK]
//	client-go reads -kubeconfig FILE [-media json|protobuf]
//	client-go queue [-cycles N] [-threads N]
//
// The environment says whether the list is streamed: KUBE_FEATURE_WatchListClient=true or false.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"larder.dev/bench/report"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "where the server is")
	server     = flag.String("server", "", "its address, where there is no kubeconfig")
	media      = flag.String("media", "json", "json or protobuf")
	strip      = flag.Bool("strip", false, "do not keep managedFields")
	hold       = flag.Duration("hold", 0, "until steady memory is measured")
	until      = flag.String("until", "", "synced means: also heard of this mark")
	follow     = flag.String("follow", "", "go on until this mark")
	cycles     = flag.Int("cycles", 1000000, "of Add, Get, Done")
	threads    = flag.Int("threads", 1, "goroutines")
)

func synced(heard *report.Heard) cache.SharedIndexInformer {
	config, err := clientcmd.BuildConfigFromFlags(*server, *kubeconfig)
	if err != nil {
		report.Fail(err)
	}
	report.Configure(config, *media)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		report.Fail(err)
	}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	if err := informer.AddIndexers(cache.Indexers{"node": func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}}); err != nil {
		report.Fail(err)
	}
	if *strip {
		if err := informer.SetTransform(func(object any) (any, error) {
			object.(*corev1.Pod).ManagedFields = nil
			return object, nil
		}); err != nil {
			report.Fail(err)
		}
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { heard.Object(object.(metav1.Object)) },
		UpdateFunc: func(_, object any) { heard.Object(object.(metav1.Object)) },
		DeleteFunc: func(object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				heard.Object(pod)
			}
		},
	})
	if err != nil {
		report.Fail(err)
	}
	go informer.Run(make(chan struct{}))
	for !informer.HasSynced() || !handler.HasSynced() || !heard.SawUntil() {
		time.Sleep(time.Millisecond)
	}
	return informer
}

func syncAll() {
	heard := &report.Heard{Until: *until, Follow: *follow}
	informer := synced(heard)
	report.Synced("client-go", len(informer.GetStore().ListKeys()), heard, *hold)
	if *follow != "" {
		heard.FollowToMark()
	}
}

func reads() {
	informer := synced(&report.Heard{})
	indexer := informer.GetIndexer()
	keys := indexer.ListKeys()
	sort.Strings(keys)
	for i := range keys {
		// Who asks has a key of his own, from a queue or a reference; the map's own string need not be compared.
		keys[i] = strings.Clone(keys[i])
	}
	var nodes, namespaces []string
	for i, key := range keys {
		if object, _, _ := indexer.GetByKey(key); i%97 == 0 {
			nodes = append(nodes, object.(*corev1.Pod).Spec.NodeName)
		}
	}
	for i := 0; i < 10; i++ {
		namespace, _, _ := cache.SplitMetaNamespaceKey(keys[i*131%len(keys)])
		namespaces = append(namespaces, namespace)
	}
	// The least of five times: what a process does in the background after its sync is no part of a get.
	nanoseconds := func(count int, gets func()) float64 {
		least := time.Duration(math.MaxInt64)
		for range 5 {
			start := time.Now()
			gets()
			least = min(least, time.Since(start))
		}
		return float64(least.Nanoseconds()) / float64(count)
	}
	gets := func(distinct, count int) float64 {
		return nanoseconds(count, func() {
			for i := range count {
				if _, there, err := indexer.GetByKey(keys[i*7919%distinct]); !there || err != nil {
					report.Fail(fmt.Errorf("a pod is gone: %v", err))
				}
			}
		})
	}
	hot := min(1000, len(keys))
	line := map[string]any{"peer": "client-go"}
	line["get_hot_ns"] = gets(hot, 200000)
	line["get_any_ns"] = gets(len(keys), 20000)
	start, found := time.Now(), 0
	for i := 0; i < 100; i++ {
		objects, err := indexer.ByIndex("node", nodes[i%len(nodes)])
		if err != nil {
			report.Fail(err)
		}
		found += len(objects)
	}
	line["by_index_us_per_object"] = time.Since(start).Seconds() * 1e6 / float64(found)
	lister, selected := listers.NewPodLister(indexer), 0
	names := make([][2]string, hot)
	for i := range names {
		names[i][0], names[i][1], _ = cache.SplitMetaNamespaceKey(keys[i])
	}
	line["lister_get_hot_ns"] = nanoseconds(200000, func() {
		for i := range 200000 {
			name := names[i*7919%hot]
			if _, err := lister.Pods(name[0]).Get(name[1]); err != nil {
				report.Fail(err)
			}
		}
	})
	selector, err := labels.Parse("app.kubernetes.io/component=api")
	if err != nil {
		report.Fail(err)
	}
	start = time.Now()
	for _, namespace := range namespaces {
		pods, err := lister.Pods(namespace).List(selector)
		if err != nil {
			report.Fail(err)
		}
		selected += len(pods)
	}
	line["select_in_namespace_ms"] = time.Since(start).Seconds() * 1e3 / float64(len(namespaces))
	line["selected"], line["found_by_index"] = selected, found
	report.Print(line)
}

func queueCycles() {
	queue := workqueue.NewTyped[string]()
	defer queue.ShutDown()
	each := *cycles / *threads
	all := make([][]string, *threads)
	for t := range all {
		for i := 0; i < each; i++ {
			all[t] = append(all[t], fmt.Sprintf("namespace-%d/pod-%d", t, 10000000+i))
		}
	}
	var workers sync.WaitGroup
	start := time.Now()
	for _, mine := range all {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for _, key := range mine {
				queue.Add(key)
				item, _ := queue.Get()
				queue.Done(item)
			}
		}()
	}
	workers.Wait()
	report.Print(map[string]any{
		"peer": "client-go", "cycles_per_second": float64(each**threads) / time.Since(start).Seconds(),
	})
}

func main() {
	commands := map[string]func(){"sync": syncAll, "reads": reads, "queue": queueCycles}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: client-go sync|reads|queue [options]")
		os.Exit(2)
	}
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		os.Exit(2)
	}
	commands[os.Args[1]]()
}
