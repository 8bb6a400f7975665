package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

const defaultConfiguration = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// loadConfiguration reads a KubeSchedulerConfiguration; no text is the default one.
func loadConfiguration(text string) (*config.KubeSchedulerConfiguration, error) {
	if text == "" {
		text = defaultConfiguration
	}
	obj, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	loaded, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("not a KubeSchedulerConfiguration")
	}
	loaded.TypeMeta.APIVersion = kind.GroupVersion().String()
	return loaded, nil
}

// profiles are the frameworks of a configuration over one snapshot of a cluster.
type profiles struct {
	byName  map[string]framework.Framework
	inOrder []framework.Framework
	queue   internalqueue.SchedulingQueue
}

// newProfiles builds what kube-scheduler builds of a configuration, over objects that a client serves.
func newProfiles(ctx context.Context, cfg *config.KubeSchedulerConfiguration, client *fake.Clientset, snapshot *internalcache.Snapshot) (*profiles, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	common, err := commonOptions(ctx, client, factory, snapshot)
	if err != nil {
		return nil, err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	made := &profiles{byName: map[string]framework.Framework{}}
	for index := range cfg.Profiles {
		profile := &cfg.Profiles[index]
		recorder := broadcaster.NewRecorder(kubescheme.Scheme, profile.SchedulerName).(events.EventRecorderLogger)
		built, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
			append(common, frameworkruntime.WithComponentConfigVersion(cfg.TypeMeta.APIVersion), frameworkruntime.WithEventRecorder(recorder))...)
		if err != nil {
			return nil, err
		}
		made.byName[profile.SchedulerName] = built
		made.inOrder = append(made.inOrder, built)
	}
	if len(made.inOrder) > 0 {
		queue := internalqueue.NewSchedulingQueue(made.inOrder[0].QueueSortFunc(), factory)
		made.queue = queue
		for _, each := range made.inOrder {
			each.SetPodNominator(queue)
			each.SetPodActivator(queue)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return made, nil
}

func commonOptions(ctx context.Context, client *fake.Clientset, factory informers.SharedInformerFactory, snapshot *internalcache.Snapshot) ([]frameworkruntime.Option, error) {
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		KubeClient:               client,
	})
	if err != nil {
		return nil, err
	}
	return []frameworkruntime.Option{
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, slices, factory)),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodGroupManager(internalcache.New(ctx, nil, false)),
		frameworkruntime.WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done())),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithParallelism(1),
	}, nil
}

// decode reads an API object and fills in the defaults that the scheduler's own scheme knows.
func decode(raw []byte) (runtime.Object, error) {
	obj, _, err := kubescheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	kubescheme.Scheme.Default(obj)
	return obj, nil
}
