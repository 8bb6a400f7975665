package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// scenario is a cluster and the pods to judge against it, one by one; none is placed.
type scenario struct {
	ID      string            `json:"id"`
	Config  string            `json:"config,omitempty"`
	Objects []json.RawMessage `json:"objects"`
	Pending []json.RawMessage `json:"pending"`
	Preempt bool              `json:"preempt,omitempty"`
}

type scenarioAnswer struct {
	ID    string      `json:"id"`
	Error string      `json:"error,omitempty"`
	Pods  []podAnswer `json:"pods,omitempty"`
}

// world is what a scenario's objects are: pods on nodes make the snapshot, pods without a node that
// are nominated to one hold room there, everything is served by the client.
type world struct {
	objects   []runtime.Object
	nodes     []*v1.Node
	placed    []*v1.Pod
	nominated []*v1.Pod
	pending   []*v1.Pod
}

func answerScenario(ctx context.Context, line []byte) (any, error) {
	var question scenario
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	pods, err := judgeScenario(ctx, question)
	if err != nil {
		return scenarioAnswer{ID: question.ID, Error: err.Error()}, nil
	}
	return scenarioAnswer{ID: question.ID, Pods: pods}, nil
}

func judgeScenario(ctx context.Context, question scenario) (found []podAnswer, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	cfg, err := loadConfiguration(question.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	seen, err := readWorld(question)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := fake.NewClientset(seen.objects...)
	deleted := watchDeletions(client)
	made, err := newProfiles(ctx, cfg, client, internalcache.NewSnapshot(seen.placed, seen.nodes))
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	for _, pod := range seen.nominated { // the nominator asks the queue who a nominated pod is
		made.queue.Add(ctx, pod)
	}
	for _, pod := range seen.pending {
		answer := podAnswer{Pod: pod.Namespace + "/" + pod.Name, Feasible: []string{}}
		if profile := made.byName[pod.Spec.SchedulerName]; profile == nil {
			answer.Error = "no profile " + pod.Spec.SchedulerName
		} else {
			one := attempt{framework: profile, pod: pod, state: framework.NewCycleState(), answer: &answer}
			one.judge(ctx, question.Preempt, deleted)
		}
		found = append(found, answer)
	}
	return found, nil
}

func readWorld(question scenario) (*world, error) {
	seen := &world{}
	for _, raw := range question.Objects {
		obj, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
		switch each := obj.(type) {
		case *v1.Node:
			seen.nodes = append(seen.nodes, each)
		case *v1.Pod:
			if each.Spec.NodeName != "" {
				seen.placed = append(seen.placed, each)
			} else if each.Status.NominatedNodeName != "" {
				seen.nominated = append(seen.nominated, each)
			}
		}
		seen.objects = append(seen.objects, obj)
	}
	for _, raw := range question.Pending {
		obj, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("pending: %w", err)
		}
		seen.pending = append(seen.pending, obj.(*v1.Pod))
		seen.objects = append(seen.objects, obj)
	}
	return seen, nil
}

// deletions are the pods that preemption deleted; the cluster itself stays as it is.
type deletions struct {
	mutex sync.Mutex
	names []string
}

func watchDeletions(client *fake.Clientset) *deletions {
	seen := &deletions{}
	client.PrependReactor("delete", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		deletion := action.(k8stesting.DeleteAction)
		seen.mutex.Lock()
		defer seen.mutex.Unlock()
		seen.names = append(seen.names, deletion.GetNamespace()+"/"+deletion.GetName())
		return true, nil, nil
	})
	client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, &v1.Pod{}, nil
	})
	return seen
}

// take returns the names by order of name, and forgets them.
func (seen *deletions) take() []string {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	taken := seen.names
	seen.names = nil
	slices.Sort(taken)
	return taken
}
