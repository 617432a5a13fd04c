// Package report is what the Go peers share: the form of their output, what they measure of themselves, and a handler that
// counts what it hears.
package report

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	writtenAt = "bench.larder.dev/at"   // nanoseconds since 1970
	mark      = "bench.larder.dev/mark" // what the last patch of a series carries
	protobuf  = "application/vnd.kubernetes.protobuf"
)

var begun = time.Now()

// Fail says why and ends the process.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// SinceStart is the seconds since whoever started this process did so (BENCH_START, nanoseconds since 1970).
func SinceStart() float64 {
	if ns, err := strconv.ParseInt(os.Getenv("BENCH_START"), 10, 64); err == nil {
		return time.Since(time.Unix(0, ns)).Seconds()
	}
	return time.Since(begun).Seconds()
}

// Cpu is user and system seconds of this process.
func Cpu() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		Fail(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}

// Memory of this process in MiB: "VmRSS:" now, "VmHWM:" at its highest.
func Memory(field string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		Fail(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == field {
			kib, _ := strconv.ParseFloat(words[1], 64)
			return kib / 1024
		}
	}
	return 0
}

var received atomic.Int64

type countedConn struct{ net.Conn }

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	received.Add(int64(n))
	return n, err
}

// Configure removes the limit of requests, counts what is received, and says how objects are encoded.
func Configure(config *rest.Config, media string) {
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	if media == "protobuf" {
		config.ContentType, config.AcceptContentTypes = protobuf, protobuf+",application/json"
	}
	dialer := &net.Dialer{}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return countedConn{conn}, nil
	}
}

// Heard is what handlers tell.
type Heard struct {
	Until, Follow string // marks
	handled       atomic.Int64
	sawUntil      atomic.Bool
	followedAt    atomic.Int64
	noting        atomic.Bool
	mutex         sync.Mutex
	delays        []float64
}

// Object is called with every object that a handler is given.
func (h *Heard) Object(object metav1.Object) {
	h.handled.Add(1)
	annotations := object.GetAnnotations()
	if text, ok := annotations[mark]; ok {
		if text == h.Until {
			h.sawUntil.Store(true)
		}
		if text == h.Follow {
			h.followedAt.CompareAndSwap(0, time.Now().UnixNano())
		}
	}
	if !h.noting.Load() {
		return
	}
	if at, err := strconv.ParseInt(annotations[writtenAt], 10, 64); err == nil {
		delay := float64(time.Now().UnixNano()-at) / 1e6
		h.mutex.Lock()
		h.delays = append(h.delays, delay)
		h.mutex.Unlock()
	}
}

// SawUntil is true without a mark to wait for.
func (h *Heard) SawUntil() bool { return h.Until == "" || h.sawUntil.Load() }

// Handled is how many calls there were.
func (h *Heard) Handled() int64 { return h.handled.Load() }

// Print writes one line of the shared form.
func Print(line map[string]any) {
	out, err := json.Marshal(line)
	if err != nil {
		Fail(err)
	}
	fmt.Println(string(out))
}

// Synced prints the line of a peer that has just synced, and after `hold` one with its memory. Steady memory is what is left when
// the garbage collector gave back what it could, which a controller would not ask it to.
func Synced(peer string, objects int, heard *Heard, hold time.Duration) {
	Print(map[string]any{
		"peer": peer, "seconds": SinceStart(), "cpu_seconds": Cpu(), "received_bytes": received.Load(),
		"handled": heard.Handled(), "objects": objects,
	})
	time.Sleep(hold)
	peak, cpu := Memory("VmHWM:"), Cpu()
	debug.FreeOSMemory()
	Print(map[string]any{"peak_mib": peak, "cpu_after_hold_seconds": cpu, "steady_mib": Memory("VmRSS:")})
}

// FollowToMark counts until the mark to follow was heard of, and prints what that cost.
func (h *Heard) FollowToMark() {
	cpu, handled := Cpu(), h.Handled()
	h.noting.Store(true)
	Print(map[string]any{"ready": true})
	for h.followedAt.Load() == 0 {
		time.Sleep(20 * time.Millisecond) // seldom: a look is no work of an informer's
	}
	used := Cpu() - cpu
	h.mutex.Lock()
	defer h.mutex.Unlock()
	sort.Float64s(h.delays)
	percentile := func(share float64) float64 {
		if len(h.delays) == 0 {
			return 0
		}
		return h.delays[int(share*float64(len(h.delays)-1))]
	}
	Print(map[string]any{
		"followed_at": float64(h.followedAt.Load()) / 1e9, "handled": h.Handled() - handled, "cpu_seconds": used,
		"delay_p50_ms": percentile(0.5), "delay_p99_ms": percentile(0.99), "peak_mib": Memory("VmHWM:"),
	})
}
