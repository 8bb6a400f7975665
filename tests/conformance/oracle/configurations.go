package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type configurationQuestion struct {
	ID     string `json:"id"`
	Config string `json:"config"`
}

// configurationAnswer says whether a configuration is accepted, and which plugins each of its profiles
// runs at each extension point, in order; score has the weights.
type configurationAnswer struct {
	ID       string                         `json:"id"`
	Accepted bool                           `json:"accepted"`
	Error    string                         `json:"error,omitempty"`
	Profiles map[string]map[string][]string `json:"profiles,omitempty"`
}

func answerConfiguration(ctx context.Context, line []byte) (any, error) {
	var question configurationQuestion
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	found, err := acceptedProfiles(ctx, question.Config)
	if err != nil {
		return configurationAnswer{ID: question.ID, Error: err.Error()}, nil
	}
	return configurationAnswer{ID: question.ID, Accepted: true, Profiles: found}, nil
}

func acceptedProfiles(ctx context.Context, text string) (found map[string]map[string][]string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	cfg, err := loadConfiguration(text)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made, err := newProfiles(ctx, cfg, fake.NewClientset(), internalcache.NewEmptySnapshot())
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	found = map[string]map[string][]string{}
	for name, profile := range made.byName {
		found[name] = pluginsOf(profile)
	}
	return found, nil
}

func pluginsOf(profile framework.Framework) map[string][]string {
	enabled := profile.ListPlugins()
	sets := map[string]config.PluginSet{
		"preEnqueue": enabled.PreEnqueue, "queueSort": enabled.QueueSort,
		"preFilter": enabled.PreFilter, "filter": enabled.Filter, "postFilter": enabled.PostFilter,
		"preScore": enabled.PreScore, "score": enabled.Score,
		"reserve": enabled.Reserve, "permit": enabled.Permit,
		"preBind": enabled.PreBind, "bind": enabled.Bind, "postBind": enabled.PostBind,
	}
	found := map[string][]string{}
	for point, set := range sets {
		for _, each := range set.Enabled {
			name := each.Name
			if point == "score" {
				name = fmt.Sprintf("%s=%d", each.Name, each.Weight)
			}
			found[point] = append(found[point], name)
		}
	}
	return found
}
