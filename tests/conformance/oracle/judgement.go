package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type verdict struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
}

// podAnswer is what the plugins make of one pod. Scores are normalised and weighted; a plugin that
// gives 0 to every feasible node is left out, as one that was skipped is. Where a score out of range
// ends the attempt in an error, Unscored are the nodes that have one, and the scores are those of the
// others, asked for without them.
type podAnswer struct {
	Pod        string                      `json:"pod"`
	Error      string                      `json:"error,omitempty"`
	PreFilter  *verdict                    `json:"prefilter,omitempty"`
	PreNodes   []string                    `json:"prefilter_nodes,omitempty"`
	Filter     map[string]verdict          `json:"filter,omitempty"`
	Feasible   []string                    `json:"feasible"`
	Scores     map[string]map[string]int64 `json:"scores,omitempty"`
	Total      map[string]int64            `json:"total,omitempty"`
	Unscored   []string                    `json:"unscored,omitempty"`
	FitError   string                      `json:"fit_error,omitempty"`
	Nominated  string                      `json:"nominated,omitempty"`
	PostFilter string                      `json:"postfilter,omitempty"`
	Victims    []string                    `json:"victims,omitempty"`
}

// attempt is one scheduling cycle of one pod, without its end.
type attempt struct {
	framework framework.Framework
	pod       *v1.Pod
	state     fwk.CycleState
	answer    *podAnswer
	diagnosis framework.Diagnosis
}

func (a *attempt) judge(ctx context.Context, preempt bool, deleted *deletions) {
	nodes, err := a.framework.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		a.answer.Error = err.Error()
		return
	}
	a.diagnosis = framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	candidates, ok := a.preFilter(ctx, nodes)
	if !ok {
		return
	}
	feasible := a.filter(ctx, candidates)
	if len(feasible) > 0 {
		a.score(ctx, feasible)
		return
	}
	failure := framework.FitError{Pod: a.pod, NumAllNodes: len(nodes), Diagnosis: a.diagnosis}
	a.answer.FitError = failure.Error()
	if preempt && a.framework.HasPostFilterPlugins() {
		a.postFilter(ctx, deleted)
	}
}

// preFilter gives the nodes that are left to filter; not ok where the attempt ends in an error.
func (a *attempt) preFilter(ctx context.Context, nodes []fwk.NodeInfo) (left []fwk.NodeInfo, ok bool) {
	narrowed, status, by := a.framework.RunPreFilterPlugins(ctx, a.state, a.pod)
	if !status.IsSuccess() {
		a.answer.PreFilter = said(status)
		if !status.IsRejected() {
			a.answer.Error = status.Message()
			return nil, false
		}
		a.diagnosis.PreFilterMsg = status.Message()
		a.diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		a.diagnosis.AddPluginStatus(status)
		return nil, true
	}
	a.answer.Filter = map[string]verdict{}
	if narrowed.AllNodes() {
		return nodes, true
	}
	for _, node := range nodes {
		if narrowed.NodeNames.Has(node.Node().Name) {
			left = append(left, node)
			a.answer.PreNodes = append(a.answer.PreNodes, node.Node().Name)
		}
	}
	slices.Sort(a.answer.PreNodes)
	reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", slices.Sorted(maps.Keys(by)))
	a.diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason))
	return left, true
}

func (a *attempt) filter(ctx context.Context, candidates []fwk.NodeInfo) (feasible []fwk.NodeInfo) {
	for _, node := range candidates {
		name := node.Node().Name
		status := a.framework.RunFilterPluginsWithNominatedPods(ctx, a.state, a.pod, node)
		if status.IsSuccess() {
			feasible = append(feasible, node)
			a.answer.Feasible = append(a.answer.Feasible, name)
			continue
		}
		a.answer.Filter[name] = *said(status)
		a.diagnosis.NodeToStatus.Set(name, status)
		a.diagnosis.AddPluginStatus(status)
	}
	slices.Sort(a.answer.Feasible)
	return feasible
}

func (a *attempt) score(ctx context.Context, feasible []fwk.NodeInfo) {
	if status := a.framework.RunPreScorePlugins(ctx, a.state, a.pod, feasible); !status.IsSuccess() {
		a.answer.Error = "prescore " + status.Plugin() + ": " + status.Message()
		return
	}
	scores, status := a.framework.RunScorePlugins(ctx, a.state, a.pod, feasible)
	if !status.IsSuccess() {
		// Which of several nodes is named is a matter of chance.
		a.answer.Error = "score: out of range"
		if !strings.Contains(status.Message(), "returns an invalid score") {
			a.answer.Error = "score: " + status.Message()
			return
		}
		scores = a.scoresWithoutOutliers(ctx, feasible)
	}
	a.answer.Scores = map[string]map[string]int64{}
	a.answer.Total = map[string]int64{}
	for _, node := range scores {
		a.answer.Total[node.Name] = node.TotalScore
		for _, each := range node.Scores {
			if a.answer.Scores[each.Name] == nil {
				a.answer.Scores[each.Name] = map[string]int64{}
			}
			a.answer.Scores[each.Name][node.Name] = each.Score
		}
	}
	maps.DeleteFunc(a.answer.Scores, func(_ string, column map[string]int64) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(column)), func(score int64) bool { return score != 0 })
	})
}

// scoresWithoutOutliers asks for the scores of the nodes that have valid ones when they are alone.
func (a *attempt) scoresWithoutOutliers(ctx context.Context, feasible []fwk.NodeInfo) []fwk.NodePluginScores {
	var left []fwk.NodeInfo
	for _, node := range feasible {
		if _, status := a.framework.RunScorePlugins(ctx, a.state, a.pod, []fwk.NodeInfo{node}); status.IsSuccess() {
			left = append(left, node)
		} else {
			a.answer.Unscored = append(a.answer.Unscored, node.Node().Name)
		}
	}
	slices.Sort(a.answer.Unscored)
	if status := a.framework.RunPreScorePlugins(ctx, a.state, a.pod, left); !status.IsSuccess() {
		a.answer.Error = "prescore " + status.Plugin() + ": " + status.Message()
		return nil
	}
	scores, status := a.framework.RunScorePlugins(ctx, a.state, a.pod, left)
	if !status.IsSuccess() {
		a.answer.Error = "score: " + status.Message()
	}
	return scores
}

func (a *attempt) postFilter(ctx context.Context, deleted *deletions) {
	deleted.take()
	result, status := a.framework.RunPostFilterPlugins(ctx, a.state, a.pod, a.diagnosis.NodeToStatus)
	a.answer.PostFilter = status.Code().String()
	if message := status.Message(); message != "" {
		a.answer.PostFilter += ": " + message
	}
	if result != nil && result.NominatingInfo != nil {
		a.answer.Nominated = result.NominatingInfo.NominatedNodeName
	}
	a.answer.Victims = deleted.take()
}

func said(status *fwk.Status) *verdict {
	return &verdict{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: status.Reasons()}
}
