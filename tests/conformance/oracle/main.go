// Oracle says what the in-tree plugin code of kube-scheduler makes of a cluster.
//
//	oracle        < scenarios.jsonl > golden.jsonl            every plugin's verdict on every node
//	oracle config < configs.jsonl   > configs-golden.jsonl    which configurations are accepted
//
// One JSON object a line in, one a line out, in the same order.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

const longestLine = 1 << 28

func main() {
	klog.InitFlags(nil)
	klog.SetOutput(os.Stderr)
	metrics.Register()
	// Victims are deleted before PostFilter returns, so nothing has to be waited for.
	must(utilfeature.DefaultMutableFeatureGate.Set("SchedulerAsyncPreemption=false"))

	answer := answerScenario
	if len(os.Args) > 1 {
		if os.Args[1] != "config" {
			fmt.Fprintln(os.Stderr, "usage: oracle [config] < questions.jsonl > answers.jsonl")
			os.Exit(2)
		}
		answer = answerConfiguration
	}
	must(answerAll(context.Background(), os.Stdin, os.Stdout, answer))
}

// answerAll reads questions to the end and writes an answer to each.
func answerAll(ctx context.Context, in io.Reader, out io.Writer, answer func(context.Context, []byte) (any, error)) error {
	questions := bufio.NewScanner(in)
	questions.Buffer(make([]byte, 1<<20), longestLine)
	buffered := bufio.NewWriter(out)
	answers := json.NewEncoder(buffered)
	answers.SetEscapeHTML(false)
	for number := 1; questions.Scan(); number++ {
		found, err := answer(ctx, questions.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := answers.Encode(found); err != nil {
			return err
		}
	}
	if err := questions.Err(); err != nil {
		return err
	}
	return buffered.Flush()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
