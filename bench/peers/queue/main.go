// The peer of queue_bench: cycles of Add, Get, Done a second on client-go's typed work queue, which is in memory only.
//
//	queue_peer -cycles 1000000 -threads 1,2,8
//
// prints a line "threads cycles_per_second" for each.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

func keys(thread, count int) []string {
	result := make([]string, count)
	for i := range result {
		result[i] = fmt.Sprintf("namespace-%d/pod-%08d", thread, i)
	}
	return result
}

func measure(threads, cycles int) float64 {
	queue := workqueue.NewTyped[string]()
	defer queue.ShutDown()
	each := cycles / threads
	all := make([][]string, threads)
	for t := range all {
		all[t] = keys(t, each)
	}
	var workers sync.WaitGroup
	start := time.Now()
	for t := 0; t < threads; t++ {
		workers.Add(1)
		go func(mine []string) {
			defer workers.Done()
			for _, key := range mine {
				queue.Add(key)
				item, _ := queue.Get()
				queue.Done(item)
			}
		}(all[t])
	}
	workers.Wait()
	return float64(each*threads) / time.Since(start).Seconds()
}

func main() {
	cycles := flag.Int("cycles", 1000000, "cycles of Add, Get, Done for each measurement")
	threads := flag.String("threads", "1,2,8", "numbers of goroutines")
	flag.Parse()
	for _, text := range strings.Split(*threads, ",") {
		count, err := strconv.Atoi(text)
		if err != nil || count < 1 {
			fmt.Fprintln(os.Stderr, "not a number of goroutines:", text)
			os.Exit(2)
		}
		fmt.Printf("%d %.0f\n", count, measure(count, *cycles))
	}
}
