// controller-runtime as a peer of larder: a manager with one controller for pods, whose reconciler reads the pod from the
// cache, as reconcilers do.
//
//	controller-runtime sync -kubeconfig FILE -objects N [-media json|protobuf] [-hold 1s] [-until MARK] [-follow MARK]
//
// Synced means that the cache is, and that each of the N objects has been reconciled once: that is what its restart costs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"larder.dev/bench/report"
)

var (
	// The default set has a -kubeconfig of controller-runtime's own.
	flags      = flag.NewFlagSet("controller-runtime sync", flag.ExitOnError)
	kubeconfig = flags.String("kubeconfig", "", "where the server is")
	objects    = flags.Int64("objects", 0, "how many pods there are")
	media      = flags.String("media", "json", "json or protobuf")
	hold       = flags.Duration("hold", 0, "until steady memory is measured")
	until      = flags.String("until", "", "synced means: also heard of this mark")
	follow     = flags.String("follow", "", "go on until this mark")
)

func syncAll() {
	log.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		report.Fail(err)
	}
	report.Configure(config, *media)
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		report.Fail(err)
	}
	heard := &report.Heard{Until: *until, Follow: *follow}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}).Complete(reconcile.Func(
		func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var pod corev1.Pod
			if err := manager.GetClient().Get(ctx, request.NamespacedName, &pod); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			heard.Object(&pod)
			return reconcile.Result{}, nil
		}))
	if err != nil {
		report.Fail(err)
	}
	ctx := context.Background()
	go func() {
		if err := manager.Start(ctx); err != nil {
			report.Fail(err)
		}
	}()
	if !manager.GetCache().WaitForCacheSync(ctx) {
		report.Fail(fmt.Errorf("not synced"))
	}
	for heard.Handled() < *objects || !heard.SawUntil() {
		time.Sleep(time.Millisecond)
	}
	report.Synced("controller-runtime", int(heard.Handled()), heard, *hold)
	if *follow != "" {
		heard.FollowToMark()
	}
}

func main() {
	if len(os.Args) < 2 || os.Args[1] != "sync" {
		fmt.Fprintln(os.Stderr, "usage: controller-runtime sync [options]")
		os.Exit(2)
	}
	_ = flags.Parse(os.Args[2:]) // exits itself
	syncAll()
}
